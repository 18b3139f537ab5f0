// Masters, servers and workers. square.ps is their Python face.
#include "square/parameter_server.h"

#include <vector>

#include "bindings.h"
#include "buffers.h"
#include "element.h"
#include "identities.h"
#include "whole_number.h"

namespace square::python {
namespace {

// Their threads may wait for the interpreter (log callback), so they go without the lock.
struct UnlockedEnd {
  template <typename T>
  void operator()(T* gone) const {
    if (PyGILState_Check() == 0) return delete gone;
    unlocked([&] { delete gone; });
  }
};
template <typename T>
using Held = std::unique_ptr<T, UnlockedEnd>;

template <typename T>
Held<T> hold(Result<std::unique_ptr<T>> made) {
  return Held<T>(check(std::move(made)).release());
}

Held<ps::Master> start_master(std::string bind_address, std::string advertised_address,
                              const IdentityArgument& identity, bool insecure, std::string controller,
                              std::optional<Scenario> scenario, const ps::OuterOptions& outer,
                              Count<"servers"> servers, Count<"quorum"> quorum, std::optional<double> grace,
                              const std::string& basis, bool bfloat16, Size<"chunks"> chunks,
                              std::optional<Size<"max_staleness">> max_staleness, bool moves_shards,
                              double lease, double step_timeout) {
  ps::MasterOptions options;
  options.bind_address = std::move(bind_address);
  options.advertised_address = std::move(advertised_address);
  options.identity = identity_of(identity);
  options.insecure = insecure;
  options.controller_address = std::move(controller);
  if (scenario) options.scenario = std::move(*scenario);
  if (options.scenario.name.empty()) options.scenario.name = "overlay";
  options.training.outer = outer;
  options.training.servers = servers;
  options.training.quorum = quorum;
  if (grace) options.training.grace = from_seconds(*grace);
  if (basis != "base" && basis != "current") raise(invalid_argument("a basis is \"base\" or \"current\""));
  options.training.basis = basis == "base" ? ps::Basis::kBase : ps::Basis::kCurrent;
  options.training.is_bfloat16 = bfloat16;
  options.training.chunks = chunks;
  options.training.max_staleness = max_staleness;
  options.training.moves_shards = moves_shards;
  options.training.lease = from_seconds(lease);
  options.training.step_timeout = from_seconds(step_timeout);
  return hold(unlocked([&] { return ps::Master::start(options); }));
}

py::dict to_dict(const ps::MemberStatus& member) {
  py::dict named;
  named["name"] = member.name;
  named["role"] = member.is_server ? "server" : "worker";
  named["is_connected"] = member.is_connected;
  if (member.is_server) {
    named["first_element"] = member.first_element;
    named["elements"] = member.elements;
    named["update_seconds"] = member.update_seconds;
    named["snapshot_seconds"] = member.snapshot_seconds;
    return named;
  }
  named["base_version"] = member.base_version;
  named["pushes"] = member.pushes;
  named["excluded"] = member.excluded;
  named["skipped"] = member.skipped;
  named["staleness"] = member.staleness;
  named["push_seconds"] = member.push_seconds;
  named["pull_seconds"] = member.pull_seconds;
  named["wait_seconds"] = member.wait_seconds;
  named["interval_seconds"] = member.interval_seconds;
  named["norm"] = member.norm;
  named["score"] = member.score;
  return named;
}

py::list to_list(const std::vector<ps::RoundPush>& pushes) {
  py::list all;
  for (const ps::RoundPush& push : pushes) {
    py::dict one;
    one["worker"] = push.worker;
    one["base_version"] = push.base_version;
    one["tokens"] = push.tokens;
    one["chunks"] = push.chunks;
    one["decision"] = ps::to_string(push.decision);
    one["norm"] = push.norm;
    one["score"] = push.score;
    one["weight"] = push.weight;
    all.append(one);
  }
  return all;
}

py::dict to_dict(const ps::RoundStatus& round) {
  py::dict named;
  named["version"] = round.version;
  named["norm"] = round.norm;
  named["factor"] = round.factor;
  named["seconds"] = round.seconds;
  named["pushes"] = to_list(round.pushes);
  py::list parts;
  for (const ps::RoundStatus::Part& part : round.parts) {
    parts.append(py::make_tuple(part.server, part.first_element, part.elements, part.hash));
  }
  named["parts"] = parts;
  return named;
}

py::typing::Dict<py::str, py::object> to_dict(const ps::MasterStatus& status) {
  py::typing::Dict<py::str, py::object> named;
  named["version"] = status.version;
  named["tokens"] = status.tokens;
  named["chunks"] = status.chunks;
  named["chunks_done"] = status.chunks_done;
  named["chunks_held"] = status.chunks_held;
  named["rounds_skipped"] = status.rounds_skipped;
  named["waits_for"] = status.waits_for;
  named["moves_shards"] = status.moves_shards;
  py::list members;
  for (const ps::MemberStatus& member : status.members) members.append(to_dict(member));
  named["members"] = members;
  py::list rounds;
  for (const ps::RoundStatus& round : status.rounds) rounds.append(to_dict(round));
  named["rounds"] = rounds;
  return named;
}

ps::MemberOptions member_options(std::string name, std::string master, const IdentityArgument& identity,
                                 bool insecure, std::string bind_address, std::string advertised_address,
                                 double timeout) {
  return {std::move(name),         std::move(master),
          identity_of(identity),   insecure,
          std::move(bind_address), std::move(advertised_address),
          from_seconds(timeout)};
}

// The tensors of a worker, and what keeps them.
class WorkerTensors {
 public:
  explicit WorkerTensors(const std::vector<Data>& tensors) {
    for (const Data& tensor : tensors) {
      held_.push_back(request(tensor, true));
      const py::buffer_info& view = *held_.back();
      if (known_element_type(view) != ElementType::kFloat32)
        raise(invalid_argument("a worker's tensors are float32 here: got elements of format \"" +
                               view.format + "\""));
      const std::span<std::byte> bytes = bytes_of(view);
      spans_.emplace_back(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
      read_.emplace_back(spans_.back());
    }
  }
  [[nodiscard]] ps::Worker::Tensors spans() const { return spans_; }
  [[nodiscard]] ps::Worker::ConstTensors read() const { return read_; }

 private:
  Buffers held_;
  std::vector<std::span<float>> spans_;
  std::vector<std::span<const float>> read_;
};

using TensorFields = std::tuple<std::string, std::string, std::vector<std::uint64_t>>;

Held<ps::Worker> start_worker(const std::vector<TensorFields>& model, const std::vector<Data>& tensors,
                              std::string name, std::string master, const IdentityArgument& identity,
                              bool insecure, std::string bind_address, std::string advertised_address,
                              double connect_timeout) {
  std::vector<ps::TensorSpec> specs;
  for (const auto& [tensor, dtype, shape] : model) specs.push_back({tensor, dtype, shape});
  const WorkerTensors first(tensors);
  const ps::WorkerOptions options{member_options(std::move(name), std::move(master), identity, insecure,
                                                 std::move(bind_address), std::move(advertised_address),
                                                 connect_timeout)};
  return hold(unlocked([&] { return ps::Worker::start(options, specs, first.read()); }));
}

std::string_view name_of(ps::SyncOutcome outcome) {
  switch (outcome) {
    case ps::SyncOutcome::kAdopted: return "adopted";
    case ps::SyncOutcome::kSkipped: return "skipped";
    case ps::SyncOutcome::kRefused: return "refused";
    case ps::SyncOutcome::kGoesOn: return "goes on";
  }
  return "";
}

// Outcome, version, decision, reason.
using SyncTuple = std::tuple<std::string, std::uint64_t, std::string, std::string>;

SyncTuple pull(ps::Worker& self, const std::vector<Data>& tensors, double timeout) {
  const WorkerTensors held(tensors);
  const ps::SyncReport report =
      check(unlocked([&] { return self.pull(held.spans(), from_seconds(timeout)); }));
  return {std::string(name_of(report.outcome)), report.version, std::string(ps::to_string(report.decision)),
          report.reason};
}

py::typing::Dict<py::str, py::object> load_snapshot(const std::string& path) {
  const ps::Snapshot snapshot = check(unlocked([&] { return ps::load_snapshot(path); }));
  py::typing::Dict<py::str, py::object> named;
  named["version"] = snapshot.version;
  named["tokens"] = snapshot.tokens;
  named["server"] = snapshot.server;
  named["first_element"] = snapshot.first_element;
  named["norm"] = snapshot.norm;
  named["factor"] = snapshot.factor;
  named["hash"] = snapshot.hash;
  py::list model;
  for (const ps::TensorSpec& tensor : snapshot.model) {
    model.append(py::make_tuple(tensor.name, tensor.dtype, tensor.shape));
  }
  named["model"] = model;
  named["pushes"] = to_list(snapshot.pushes);
  const auto& values = snapshot.parameters;
  named["parameters"] =
      py::bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return named;
}

void bind_master(py::module_& module) {
  py::class_<ps::Master, Held<ps::Master>>(module, "ParameterMaster",
                                           "A master of parameter servers: see square.ps.Master.")
      .def(py::init(&start_master), py::kw_only(), py::arg("bind_address"), py::arg("advertised_address"),
           py::arg("identity"), py::arg("insecure"), py::arg("controller"), py::arg("scenario"),
           py::arg("outer"), py::arg("servers"), py::arg("quorum"), py::arg("grace"), py::arg("basis"),
           py::arg("bfloat16"), py::arg("chunks"), py::arg("max_staleness"), py::arg("moves_shards"),
           py::arg("lease"), py::arg("step_timeout"))
      .def_property_readonly("address", &ps::Master::address)
      .def_property_readonly("controller", &ps::Master::controller)
      .def("status", [](ps::Master& self) { return to_dict(unlocked([&] { return self.status(); })); })
      .def("stop", &ps::Master::stop, py::call_guard<py::gil_scoped_release>());
  module.def(
      "ask_parameter_master",
      [](const std::string& address, const IdentityArgument& identity, double timeout) {
        const auto own = identity_of(identity);
        return to_dict(
            check(unlocked([&] { return ps::ask_master_status(address, own, from_seconds(timeout)); })));
      },
      py::arg("address"), py::arg("identity") = py::none(), py::arg("timeout") = 5.0);
}

void bind_server(py::module_& module) {
  py::class_<ps::Server, Held<ps::Server>>(module, "ParameterServer", "See square.ps.Server.")
      .def(py::init([](std::string name, std::string master, const IdentityArgument& identity, bool insecure,
                       std::string bind_address, std::string advertised_address, double connect_timeout,
                       std::string snapshots, Size<"keep"> keep, Count<"threads"> threads,
                       double capacity_bps) {
             const ps::ServerOptions options{
                 member_options(std::move(name), std::move(master), identity, insecure,
                                std::move(bind_address), std::move(advertised_address), connect_timeout),
                 std::move(snapshots), keep, threads, capacity_bps};
             return hold(unlocked([&] { return ps::Server::start(options); }));
           }),
           py::kw_only(), py::arg("name"), py::arg("master"), py::arg("identity"), py::arg("insecure"),
           py::arg("bind_address"), py::arg("advertised_address"), py::arg("connect_timeout"),
           py::arg("snapshots"), py::arg("keep"), py::arg("threads"), py::arg("capacity_bps"))
      .def_property_readonly("version", &ps::Server::version)
      .def_property_readonly("serves", &ps::Server::serves)
      .def(
          "wait_for_end",
          [](ps::Server& self, double timeout) {
            return unlocked([&] { return self.wait_for_end(from_seconds(timeout)); });
          },
          py::arg("timeout"), "Whether it has ended within so many seconds.")
      .def(
          "check", [](const ps::Server& self) { check(self.failure()); }, "Raises why it serves no more.")
      .def("stop", &ps::Server::stop, py::call_guard<py::gil_scoped_release>());
}

void bind_worker(py::module_& module) {
  py::class_<ps::Worker, Held<ps::Worker>>(module, "ParameterWorker", "See square.ps.Worker.")
      .def(py::init(&start_worker), py::kw_only(), py::arg("model"), py::arg("tensors"), py::arg("name"),
           py::arg("master"), py::arg("identity"), py::arg("insecure"), py::arg("bind_address"),
           py::arg("advertised_address"), py::arg("connect_timeout"))
      .def(
          "begin",
          [](ps::Worker& self, const std::vector<Data>& tensors, double timeout) {
            const WorkerTensors held(tensors);
            check(unlocked([&] { return self.begin(held.spans(), from_seconds(timeout)); }));
          },
          py::arg("tensors"), py::arg("timeout"))
      .def(
          "push",
          [](ps::Worker& self, const std::vector<Data>& tensors) {
            const WorkerTensors held(tensors);
            check(unlocked([&] { return self.push(held.read()); }));
          },
          py::arg("tensors"))
      .def(
          "rebase",
          [](ps::Worker& self, const std::vector<Data>& tensors) {
            const WorkerTensors held(tensors);
            check(unlocked([&] { return self.rebase(held.read()); }));
          },
          py::arg("tensors"))
      .def("pull", &pull, py::arg("tensors"), py::arg("timeout"))
      .def(
          "wait",
          [](ps::Worker& self, double timeout) {
            return unlocked([&] { return self.wait(from_seconds(timeout)); });
          },
          py::arg("timeout"))
      .def(
          "wait_for_first",
          [](ps::Worker& self, double timeout) {
            return unlocked([&] { return self.wait_for_first(from_seconds(timeout)); });
          },
          py::arg("timeout"))
      .def_property_readonly("can_push", &ps::Worker::can_push)
      .def_property_readonly("has_work", &ps::Worker::has_work)
      .def(
          "consumed",
          [](ps::Worker& self, Size<"tokens"> tokens, std::vector<std::uint64_t> chunks) {
            check(unlocked([&] { return self.consumed(tokens, std::move(chunks)); }));
          },
          py::arg("tokens"), py::arg("chunks"))
      .def(
          "lease",
          [](ps::Worker& self, Count<"chunks"> chunks, double timeout,
             bool is_last) -> std::optional<std::vector<std::uint64_t>> {
            auto leased = unlocked([&] { return self.lease(chunks, from_seconds(timeout)); });
            if (leased.status().code() == StatusCode::kDeadlineExceeded && !is_last) return std::nullopt;
            return check(std::move(leased));
          },
          py::arg("chunks"), py::arg("timeout"), py::arg("is_last"),
          "None where none was free in time, unless it is the last attempt: then it raises.")
      .def_property_readonly("version", &ps::Worker::version)
      .def_property_readonly("tokens", &ps::Worker::tokens)
      .def("leave", &ps::Worker::leave, py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_parameter_server(py::module_& module) {
  bind_master(module);
  bind_server(module);
  bind_worker(module);
  module.def("load_parameter_snapshot", &load_snapshot, py::arg("path"), "See square.ps.read_snapshot.");
}

}  // namespace square::python
