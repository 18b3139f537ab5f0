#include "ps/protocol.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace square::ps {
namespace {

constexpr std::size_t kDifferencesShown = 5;

std::string shape_text(const v1::PsTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape(), ", "));
}

std::string describe(const v1::PsTensor& tensor) {
  return fmt::format("\"{}\" {} {}", tensor.name(), tensor.dtype(), shape_text(tensor));
}

bool is_float(const std::string& dtype) {
  return dtype == "float32" || dtype == "float64" || dtype == "float16" || dtype == "bfloat16";
}

}  // namespace

ProtocolVersions parameter_server_versions() {
  return versions_of_release(kOldestParameterServerProtocol, kParameterServerProtocol);
}

void put_versions(v1::PsHello& hello) {
  hello.set_protocol_version(parameter_server_versions().oldest);
  hello.set_newest_version(parameter_server_versions().newest);
}

v1::PsError to_message(const Status& status) {
  v1::PsError message;
  message.set_code(static_cast<int>(status.code()));
  message.set_message(status.message());
  return message;
}

Status from_message(const v1::PsError& message) {
  if (message.code() == 0) return {};
  const bool is_known =
      message.code() > 0 && message.code() <= static_cast<int>(StatusCode::kUnauthenticated);
  return {is_known ? static_cast<StatusCode>(message.code()) : StatusCode::kUnknown, message.message()};
}

std::uint64_t elements_of(const v1::PsTensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : tensor.shape()) {
    if (extent != 0 && elements > kMaxElements / extent) return kMaxElements + 1;
    elements *= extent;
  }
  return elements;
}

std::uint64_t elements_of(const v1::PsModel& model) {
  std::uint64_t elements = 0;
  for (const v1::PsTensor& tensor : model.tensors()) {
    elements = std::min(elements + elements_of(tensor), kMaxElements + 1);
  }
  return elements;
}

Status check_model(const v1::PsModel& model) {
  if (model.tensors().empty()) return invalid_argument("the model has no tensors");
  if (model.tensors_size() > static_cast<int>(kMaxTensors)) {
    return invalid_argument(fmt::format("{} tensors: at most {} may be", model.tensors_size(), kMaxTensors));
  }
  std::set<std::string> names;
  for (const v1::PsTensor& tensor : model.tensors()) {
    if (!names.insert(tensor.name()).second) {
      return invalid_argument(fmt::format("two tensors are called \"{}\"", tensor.name()));
    }
    if (!is_float(tensor.dtype())) {
      return invalid_argument(
          fmt::format("tensor {}: only floats are trained; leave out what is not", describe(tensor)));
    }
  }
  const std::uint64_t elements = elements_of(model);
  if (elements == 0) return invalid_argument("the model's tensors have no elements");
  if (elements > kMaxElements)
    return invalid_argument(fmt::format("a model of over {} elements", kMaxElements));
  return {};
}

Status compare_models(const v1::PsModel& given, const v1::PsModel& expected) {
  std::vector<std::string> differences;
  const int both = std::min(given.tensors_size(), expected.tensors_size());
  for (int i = 0; i < both && differences.size() < kDifferencesShown; ++i) {
    const std::string mine = describe(given.tensors(i));
    const std::string theirs = describe(expected.tensors(i));
    if (mine != theirs) differences.push_back(fmt::format("number {} is {}, not {}", i, mine, theirs));
  }
  if (given.tensors_size() != expected.tensors_size()) {
    differences.push_back(fmt::format("{} tensors, not {}", given.tensors_size(), expected.tensors_size()));
  }
  if (differences.empty()) return {};
  return invalid_argument(
      fmt::format("the model differs from the one that is trained: {}", fmt::join(differences, "; ")));
}

}  // namespace square::ps
