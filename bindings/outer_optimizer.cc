// The outer optimizer in one process.
#include "square/outer_optimizer.h"

#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "buffers.h"
#include "element.h"
#include "whole_number.h"

namespace square::python {
namespace {

using PenaltyFields = std::tuple<double, double, std::uint32_t, std::uint32_t>;
using PenaltyChoice = std::optional<std::variant<PenaltyFields, std::map<std::string, double>>>;
// Worker, tokens, values.
using PushedValues = std::tuple<std::string, std::uint64_t, Data>;

// Of the two names that there are.
template <typename Choice>
Choice outer_choice(const std::string& field, const std::string& given,
                    const std::array<std::pair<const char*, Choice>, 2>& all) {
  for (const auto& [name, choice] : all) {
    if (given == name) return choice;
  }
  raise(invalid_argument("an outer optimizer's " + field + " of \"" + given + "\": use \"" + all[0].first +
                         "\" or \"" + all[1].first + "\""));
}

std::uint32_t whole_number(const std::string& field, double value) {
  const bool fits = value >= 0 && value <= 4'294'967'295.0;
  if (!fits || value != static_cast<double>(static_cast<std::uint32_t>(value)))
    raise(invalid_argument("a penalty's " + field + " of " + std::to_string(value) + ": use a whole number"));
  return static_cast<std::uint32_t>(value);
}

std::optional<ps::Ewma> penalty_of(const PenaltyChoice& given) {
  if (!given) return std::nullopt;
  if (const auto* const fields = std::get_if<PenaltyFields>(&*given)) {
    const auto& [alpha, beta, warmup, window] = *fields;
    return ps::Ewma{alpha, beta, warmup, window};
  }
  ps::Ewma made;
  for (const auto& [field, value] : std::get<std::map<std::string, double>>(*given)) {
    if (field == "alpha") {
      made.alpha = value;
    } else if (field == "beta") {
      made.beta = value;
    } else if (field == "warmup") {
      made.warmup = whole_number(field, value);
    } else if (field == "window") {
      made.window = whole_number(field, value);
    } else {
      raise(invalid_argument("a penalty has no \"" + field + "\": use alpha, beta, warmup and window"));
    }
  }
  return made;
}

// The memory of `data`, which `view` keeps.
std::span<const float> floats_of(const std::shared_ptr<py::buffer_info>& view) {
  if (known_element_type(*view) != ElementType::kFloat32)
    raise(invalid_argument("an outer optimizer computes with float32: got elements of format \"" +
                           view->format + "\""));
  const std::span<std::byte> bytes = bytes_of(*view);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) != 0)
    raise(invalid_argument("float32 elements at an address that is no multiple of 4: copy them"));
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// A read-only copy with the elements of float32.
py::memoryview floats_view(const std::vector<float>& values) {
  const py::bytes copy(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return py::memoryview(copy).attr("cast")("f").cast<py::memoryview>();
}

ps::OuterOptions make_options(double lr, double momentum, Count<"delay"> delay, double delay_share,
                              std::optional<double> clip, const std::string& clip_scope,
                              const PenaltyChoice& penalty, const std::string& norms,
                              bool divide_by_live_workers) {
  ps::OuterOptions options;
  options.outer = {lr, momentum, delay, delay_share};
  options.clip = clip;
  options.clip_scope = outer_choice<ps::ClipScope>(
      "clip_scope", clip_scope, {{{"global", ps::ClipScope::kGlobal}, {"shard", ps::ClipScope::kShard}}});
  options.penalty = penalty_of(penalty);
  options.norms = outer_choice<ps::NormAggregation>(
      "norms", norms, {{{"root", ps::NormAggregation::kRootOfSquares}, {"sum", ps::NormAggregation::kSum}}});
  options.divide_by_live_workers = divide_by_live_workers;
  check(ps::check(options));
  return options;
}

ps::OuterOptimizer make_outer(const Data& parameters, double lr, double momentum, Count<"delay"> delay,
                              double delay_share, std::optional<double> clip, const std::string& clip_scope,
                              const PenaltyChoice& penalty, const std::string& norms,
                              bool divide_by_live_workers, const std::vector<std::size_t>& shards,
                              Count<"threads"> threads) {
  const ps::OuterOptions options = make_options(lr, momentum, delay, delay_share, clip, clip_scope, penalty,
                                                norms, divide_by_live_workers);
  const auto view = request(parameters, false);
  const std::span<const float> values = floats_of(view);
  return check(unlocked([&] {
    return ps::OuterOptimizer::create({values.begin(), values.end()}, options, shards, threads);
  }));
}

ps::RoundReport round_of(ps::OuterOptimizer& self, const std::vector<PushedValues>& given,
                         const std::string& basis, Size<"live_workers"> live_workers) {
  const auto chosen = outer_choice<ps::Basis>(
      "basis", basis, {{{"base", ps::Basis::kBase}, {"current", ps::Basis::kCurrent}}});
  Buffers held;
  std::vector<ps::Contribution> contributions;
  for (const auto& [worker, tokens, data] : given) {
    held.push_back(request(data, false));
    contributions.push_back({worker, tokens, floats_of(held.back())});
  }
  return check(unlocked([&] { return self.round(contributions, chosen, live_workers); }));
}

std::vector<std::string> decision_names(const ps::RoundReport& report) {
  std::vector<std::string> names;
  for (const ps::Decision decision : report.judgement.decisions) names.emplace_back(ps::to_string(decision));
  return names;
}

const PenaltyFields kUsualPenalty{ps::Ewma{}.alpha, ps::Ewma{}.beta, ps::Ewma{}.warmup, ps::Ewma{}.window};

void bind_outer_options(py::module_& module) {
  py::class_<ps::OuterOptions>(module, "OuterOptions",
                               "How an outer optimizer steps, checked: as the arguments of OuterOptimizer.")
      .def(py::init(&make_options), py::kw_only(), py::arg("lr") = ps::Nesterov{}.lr,
           py::arg("momentum") = ps::Nesterov{}.momentum, py::arg("delay") = ps::Nesterov{}.delay,
           py::arg("delay_share") = ps::Nesterov{}.delay_share, py::arg("clip") = ps::OuterOptions{}.clip,
           py::arg("clip_scope") = "global", py::arg("penalty") = kUsualPenalty, py::arg("norms") = "root",
           py::arg("divide_by_live_workers") = false);
}

void bind_outer_round(py::module_& module) {
  py::class_<ps::RoundReport>(
      module, "OuterRound",
      "What an OuterOptimizer's round did. The lists have an item for each contribution.")
      .def_property_readonly("decisions", &decision_names,
                             "\"taken\", \"outlier\", \"non-finite\" or \"no-tokens\".")
      .def_property_readonly(
          "norms", [](const ps::RoundReport& self) { return self.judgement.norms; },
          "L2 norms of the pseudo-gradients; not finite where one of their elements is not.")
      .def_property_readonly(
          "scores", [](const ps::RoundReport& self) { return self.judgement.scores; },
          "How many deviations above its worker's mean; 0 in a warm-up and where it was not asked.")
      .def_property_readonly(
          "weights", [](const ps::RoundReport& self) { return self.judgement.weights; },
          "Tokens over those of all that are taken; 0 for what is not taken.")
      .def_readonly("norm", &ps::RoundReport::norm, "Of the average, before clipping.")
      .def_readonly("factor", &ps::RoundReport::factor,
                    "What the average was multiplied with; of several shards' factors the least.")
      .def_readonly("updated", &ps::RoundReport::updated, "Whether the parameters have changed.");
}

}  // namespace

void bind_outer_optimizer(py::module_& module) {
  bind_outer_options(module);
  bind_outer_round(module);
  py::class_<ps::OuterOptimizer>(
      module, "OuterOptimizer",
      "The asynchronous outer optimizer of Di-PS in this process: it averages what workers push, without "
      "outliers, and steps by Nesterov's method. ``parameters``: float32, copied. ``delay`` above 1 is "
      "delayed "
      "Nesterov, ``delay_share`` its c. ``clip``: the longest average, None for no bound; ``clip_scope``: "
      "\"global\" or \"shard\". ``penalty``: (alpha, beta, warmup, window), a dict of some of these, or "
      "None. "
      "``norms``: \"root\" of the shards' squares or their \"sum\". ``shards``: sizes in elements. "
      "``threads``: "
      "0 for one a processor. One call at a time.")
      .def(py::init(&make_outer), py::arg("parameters"), py::kw_only(), py::arg("lr") = ps::Nesterov{}.lr,
           py::arg("momentum") = ps::Nesterov{}.momentum, py::arg("delay") = ps::Nesterov{}.delay,
           py::arg("delay_share") = ps::Nesterov{}.delay_share, py::arg("clip") = ps::OuterOptions{}.clip,
           py::arg("clip_scope") = "global", py::arg("penalty") = kUsualPenalty, py::arg("norms") = "root",
           py::arg("divide_by_live_workers") = false, py::arg("shards") = std::vector<std::size_t>{},
           py::arg("threads") = 0U)
      .def("round", &round_of, py::arg("contributions"), py::arg("basis") = "base",
           py::arg("live_workers") = 0,
           "Takes contributions (worker, tokens, float32 values). The values are pseudo-gradients (\"base\": "
           "what the worker began with minus what it has) or the worker's parameters (\"current\"). "
           "``live_workers`` counts where divide_by_live_workers is set.")
      .def(
          "forget", [](ps::OuterOptimizer& self, const std::string& worker) { self.forget(worker); },
          py::arg("worker"), "When a worker that left comes back, it is new.")
      .def("__len__", &ps::OuterOptimizer::size)
      .def_property_readonly("rounds", &ps::OuterOptimizer::rounds, "That have changed the parameters.")
      .def_property_readonly(
          "parameters", [](const ps::OuterOptimizer& self) { return floats_view(self.parameters()); },
          "A read-only copy, of float32; numpy.asarray() takes it.")
      .def_property_readonly(
          "momentum", [](const ps::OuterOptimizer& self) { return floats_view(self.momentum()); },
          "A read-only copy, of float32.");
}

}  // namespace square::python
