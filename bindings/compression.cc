#include "compression.h"

#include <cmath>
#include <cstring>

#include "buffers.h"
#include "whole_number.h"

namespace square::python {
namespace {

std::string_view kind_name(CompressionKind kind) {
  switch (kind) {
    case CompressionKind::kNone: return "none";
    case CompressionKind::kBfloat16: return "bf16";
    case CompressionKind::kInt8: return "int8";
    case CompressionKind::kTopK: return "top-k";
  }
  return "unknown";
}

Compression checked(const Compression& compression) {
  check(check_compression(compression));
  return compression;
}

ErrorFeedback feedback_of(const std::optional<Data>& values) {
  if (!values) return {};
  const auto view = request(*values, false);
  const std::span<std::byte> bytes = bytes_of(*view);
  if (bytes.size() % sizeof(float) != 0)
    raise(invalid_argument("what was not sent must be float32 elements, as tobytes() gives them"));
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return ErrorFeedback(std::move(floats));
}

std::string text_of(const CompressionReport& report) {
  return "CompressionReport(calls=" + std::to_string(report.calls) +
         ", bytes_before=" + std::to_string(report.bytes_before) +
         ", bytes_after=" + std::to_string(report.bytes_after) + ", ratio=" + std::to_string(report.ratio()) +
         ", relative_error=" + std::to_string(report.relative_error()) + ")";
}

void bind_report(py::module_& module) {
  py::class_<CompressionReport>(
      module, "CompressionReport",
      "What compression did to what this member gave, in one call or, added up, in several.")
      .def(py::init<>())
      .def_readonly("calls", &CompressionReport::calls)
      .def_readonly("bytes_before", &CompressionReport::bytes_before, "Of the elements.")
      .def_readonly("bytes_after", &CompressionReport::bytes_after, "Of what stands for them.")
      .def_property_readonly("ratio", &CompressionReport::ratio, "How many times fewer bytes.")
      .def_property_readonly("relative_error", &CompressionReport::relative_error,
                             "The L2 norm of what was not sent, over that of what should have been; a NaN if "
                             "there was one in it.")
      .def("__add__", [](CompressionReport self, const CompressionReport& other) { return self += other; })
      .def("__repr__", &text_of);
}

void bind_feedback(py::module_& module) {
  py::class_<ErrorFeedback, std::shared_ptr<ErrorFeedback>>(
      module, "ErrorFeedback",
      "What this member's compressed sums of one tensor did not send so far. Have one for every tensor, and "
      "pass it to every call for it. ``values``: what an earlier one had, as tobytes() gives it.")
      .def(py::init(&feedback_of), py::arg("values") = py::none())
      .def("__len__", &ErrorFeedback::size)
      .def_property_readonly("is_in_use", &ErrorFeedback::is_in_use,
                             "Whether an operation that is not over has it: another one may not.")
      .def_property_readonly("norm", &ErrorFeedback::norm, "The L2 norm.")
      .def("tobytes", &ErrorFeedback::bytes, "A copy, as float32 elements.")
      .def("reset", &ErrorFeedback::reset, "Forgets it all.");
}

}  // namespace

Compression chosen_compression(const CompressionChoice& choice) {
  if (!choice) return {};
  if (const auto* const text = std::get_if<std::string>(&*choice)) return check(parse_compression(*text));
  return std::get<Compression>(*choice);
}

std::span<float> ErrorFeedback::begin(std::size_t count) {
  check_idle();
  if (values_->empty()) values_->assign(count, 0.0F);
  if (values_->size() != count) {
    raise(invalid_argument("the ErrorFeedback is of a tensor of " + std::to_string(values_->size()) +
                           " elements, not of " + std::to_string(count) + ": have one for every tensor"));
  }
  return *values_;
}

py::bytes ErrorFeedback::bytes() const {
  check_idle();
  return {reinterpret_cast<const char*>(values_->data()), values_->size() * sizeof(float)};
}

double ErrorFeedback::norm() const {
  check_idle();
  double sum = 0;
  for (const float value : *values_) sum += double{value} * double{value};
  return std::sqrt(sum);
}

void ErrorFeedback::reset() {
  check_idle();
  values_->clear();
}

bool ErrorFeedback::is_in_use() const {
  const std::shared_ptr<Work> user = user_.lock();
  return user && !user->is_done();
}

void ErrorFeedback::check_idle() const {
  if (!is_in_use()) return;
  raise(failed_precondition(
      "the ErrorFeedback is in use: wait for the operation, and have one for every tensor"));
}

void bind_compression(py::module_& module) {
  py::class_<Compression>(
      module, "Compression",
      "How an all_reduce of float32 sends less than it is given; also a text, such as \"int8:128\".")
      .def_static("bf16", &Compression::bfloat16, "Every element rounded to bfloat16, and added as such.")
      .def_static(
          "int8",
          [](Count<"block"> block, bool feedback) { return checked(Compression::int8(block, feedback)); },
          py::arg("block") = Compression::kDefaultBlock, py::arg("feedback") = false,
          "8-bit integers; ``block`` elements, 16 to 65536, share a float32 scale.")
      .def_static(
          "top_k",
          [](double fraction, bool feedback) { return checked(Compression::top_k(fraction, feedback)); },
          py::arg("fraction") = Compression::kDefaultFraction, py::arg("feedback") = true,
          "Only the elements with the largest magnitudes, with their indices.")
      .def_static(
          "parse", [](const std::string& text) { return check(parse_compression(text)); }, py::arg("text"),
          "Of \"none\", \"bf16\", \"int8\", \"int8:128\", \"int8:256:feedback\", \"top-k:0.01\", "
          "\"top-k:0.01:no-feedback\".")
      .def_property_readonly("kind", [](const Compression& self) { return kind_name(self.kind); })
      .def_readonly("block", &Compression::block)
      .def_readonly("fraction", &Compression::fraction)
      .def_readonly("error_feedback", &Compression::error_feedback,
                    "Whether what is not sent is kept for the next call, in an ErrorFeedback.")
      .def("__eq__",
           [](const Compression& self, const py::object& other) {
             return py::isinstance<Compression>(other) && self == other.cast<Compression>();
           })
      .def("__hash__", [](const Compression& self) { return std::hash<std::string>{}(to_string(self)); })
      .def("__str__", [](const Compression& self) { return to_string(self); })
      .def("__repr__",
           [](const Compression& self) { return "Compression.parse(\"" + to_string(self) + "\")"; });
  bind_report(module);
  bind_feedback(module);
}

}  // namespace square::python
