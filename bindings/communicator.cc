#include "square/communicator.h"

#include <deque>

#include "bindings.h"

namespace square::python {
namespace {

// How long a wait goes on before it looks for Ctrl-C.
constexpr Duration kSignalCheck = std::chrono::milliseconds(50);

using Buffers = std::vector<std::shared_ptr<py::buffer_info>>;

// An operation and the buffers that it reads or fills. They are let go only when
// nothing refers to them: dropping a running work cancels it and waits, about 1 s at most.
class BufferWork {
 public:
  BufferWork(std::shared_ptr<Work> work, Buffers buffers)
      : work_(std::move(work)), buffers_(std::move(buffers)) {}

  ~BufferWork() {
    if (!work_->is_done()) work_->cancel();
    unlocked([&] { static_cast<void>(work_->wait()); });
  }

  void wait() {
    while (!unlocked([&] { return work_->wait_for(kSignalCheck); })) give_way_to_signals();
    check(work_->wait());
  }

  bool wait_for(double seconds) {
    const auto deadline = std::chrono::steady_clock::now() + from_seconds(seconds);
    for (;;) {
      const auto left = deadline - std::chrono::steady_clock::now();
      const Duration slice = std::clamp<Duration>(left, Duration(0), kSignalCheck);
      if (unlocked([&] { return work_->wait_for(slice); })) return true;
      if (std::chrono::steady_clock::now() >= deadline) return false;
      give_way_to_signals();
    }
  }

  [[nodiscard]] bool is_done() const { return work_->is_done(); }
  void cancel() { work_->cancel(); }

 private:
  // Ctrl-C ends the operation before it ends the call: the buffer is free again then.
  void give_way_to_signals() {
    if (PyErr_CheckSignals() == 0) return;
    work_->cancel();
    unlocked([&] { static_cast<void>(work_->wait()); });
    throw py::error_already_set();
  }

  std::shared_ptr<Work> work_;
  Buffers buffers_;
};

using CollectiveTuple = std::tuple<std::string, std::uint32_t, std::uint64_t, double>;

class PythonCommunicator {
 public:
  PythonCommunicator(std::shared_ptr<MemberHost> node, GroupSpec group, Rank rank, double timeout)
      : node_(std::move(node)), communicator_(check(unlocked([&] {
          return Communicator::create(*node_, std::move(group), rank, from_seconds(timeout));
        }))) {}

  [[nodiscard]] std::uint32_t rank() const { return communicator_->rank().value(); }
  [[nodiscard]] std::size_t size() const { return communicator_->size(); }

  std::shared_ptr<BufferWork> broadcast_async(const py::buffer& data, std::uint32_t root, double timeout) {
    // Asking for a writable view of a destination refuses read-only objects here.
    auto view = request(data, root != rank());
    const std::span bytes = bytes_of(*view);
    auto work = check(
        unlocked([&] { return communicator_->broadcast_async(bytes, Rank(root), from_seconds(timeout)); }));
    return std::make_shared<BufferWork>(std::move(work), Buffers{std::move(view)});
  }

  std::shared_ptr<BufferWork> reduce_async(const py::buffer& input, const std::optional<py::buffer>& output,
                                           std::uint32_t root, const std::string& op, double timeout) {
    const bool is_root = root == rank();
    const Summands sum = summands(input, is_root ? output : std::nullopt, is_root, op);
    auto work = check(unlocked([&] {
      return communicator_->reduce_async(sum.input, sum.output, sum.reduction, Rank(root),
                                         from_seconds(timeout));
    }));
    return std::make_shared<BufferWork>(std::move(work), sum.buffers);
  }

  std::shared_ptr<BufferWork> all_reduce_async(const py::buffer& input,
                                               const std::optional<py::buffer>& output, const std::string& op,
                                               double timeout) {
    const Summands sum = summands(input, output, true, op);
    auto work = check(unlocked([&] {
      return communicator_->all_reduce_async(sum.input, sum.output, sum.reduction, from_seconds(timeout));
    }));
    return std::make_shared<BufferWork>(std::move(work), sum.buffers);
  }

 private:
  struct Summands {
    Buffers buffers;
    std::span<const std::byte> input;
    std::span<std::byte> output;  // empty where there is no result
    Reduction reduction;
  };

  // Without an output the result takes the input's place.
  static Summands summands(const py::buffer& input, const std::optional<py::buffer>& output, bool has_result,
                           const std::string& op) {
    if (op != "sum") raise(invalid_argument("op must be \"sum\", not \"" + op + "\""));
    Summands sum;
    auto view = request(input, has_result && !output);
    sum.reduction = {element_type(*view), ReduceOp::kSum};
    sum.input = bytes_of(*view);
    if (has_result) sum.output = bytes_of(*view);
    sum.buffers.push_back(std::move(view));
    if (!output) return sum;
    auto result = request(*output, true);
    if (element_type(*result) != sum.reduction.type) {
      raise(invalid_argument("the output has elements of another type than the input"));
    }
    sum.output = bytes_of(*result);
    sum.buffers.push_back(std::move(result));
    return sum;
  }

  // From the buffer's format, as the struct module has it.
  static ElementType element_type(const py::buffer_info& view) {
    const bool is_signed = view.format.find_first_of("bhilqn") != std::string::npos;
    if (view.format == "f" || view.format == "<f") return ElementType::kFloat32;
    if (view.format == "d" || view.format == "<d") return ElementType::kFloat64;
    if (is_signed && view.itemsize == 4) return ElementType::kInt32;
    if (is_signed && view.itemsize == 8) return ElementType::kInt64;
    raise(invalid_argument("elements of format \"" + view.format +
                           "\" cannot be added: use float32, float64, int32 or int64"));
  }

  static std::span<std::byte> bytes_of(const py::buffer_info& view) {
    return {static_cast<std::byte*>(view.ptr), static_cast<std::size_t>(view.size * view.itemsize)};
  }

  static std::shared_ptr<py::buffer_info> request(const py::buffer& data, bool writable) {
    py::buffer_info view;
    try {
      view = data.request(writable);
    } catch (py::error_already_set& error) {
      raise(invalid_argument(std::string(writable ? "the buffer of a result must be writable: "
                                                  : "the buffer cannot be read: ") +
                             error.what()));
    }
    py::ssize_t stride = view.itemsize;
    for (py::ssize_t i = view.ndim; i-- > 0; stride *= view.shape[i]) {
      if (view.shape[i] > 1 && view.strides[i] != stride) {
        raise(invalid_argument("the buffer must be contiguous, in C order"));
      }
    }
    return std::make_shared<py::buffer_info>(std::move(view));
  }

  std::shared_ptr<MemberHost> node_;
  std::unique_ptr<Communicator> communicator_;
};

std::unique_ptr<PythonCommunicator> create(std::shared_ptr<MemberHost> node, std::string group,
                                           std::string tenant, std::vector<std::string> nodes,
                                           std::uint32_t rank,
                                           const std::vector<CollectiveTuple>& collectives, double timeout) {
  GroupSpec spec{std::move(group), std::move(tenant), std::move(nodes), {}};
  for (const auto& [op, root, size_bytes, weight] : collectives) {
    spec.collectives.push_back({check(parse_collective_op(op)), Rank(root), weight, size_bytes});
  }
  return std::make_unique<PythonCommunicator>(std::move(node), std::move(spec), Rank(rank), timeout);
}

constexpr double kDefaultTimeoutSeconds = 300.0;

}  // namespace

void bind_communicator(py::module_& module) {
  py::class_<BufferWork, std::shared_ptr<BufferWork>>(module, "Work", "An operation that runs.")
      .def("wait", &BufferWork::wait, "Waits until it is over; raises if it failed. Ctrl-C cancels it.")
      .def("wait_for", &BufferWork::wait_for, py::arg("seconds"), "Whether it was over within that time.")
      .def("cancel", &BufferWork::cancel)
      .def_property_readonly("is_done", &BufferWork::is_done);
  py::class_<PythonCommunicator>(module, "Communicator",
                                 "Operations on a group, as one member sees them: see square/communicator.h.")
      .def(py::init(&create), py::arg("node"), py::arg("group"), py::arg("tenant"), py::arg("nodes"),
           py::arg("rank"), py::arg("collectives") = std::vector<CollectiveTuple>{},
           py::arg("timeout") = kDefaultTimeoutSeconds)
      .def_property_readonly("rank", &PythonCommunicator::rank)
      .def_property_readonly("size", &PythonCommunicator::size)
      .def(
          "broadcast",
          [](PythonCommunicator& self, const py::buffer& data, std::uint32_t root, double timeout) {
            self.broadcast_async(data, root, timeout)->wait();
          },
          py::arg("data"), py::arg("root") = 0, py::arg("timeout") = kDefaultTimeoutSeconds,
          "Copies the root's bytes into everybody's buffer, without a copy in between.")
      .def("broadcast_async", &PythonCommunicator::broadcast_async, py::arg("data"), py::arg("root") = 0,
           py::arg("timeout") = kDefaultTimeoutSeconds)
      .def(
          "reduce",
          [](PythonCommunicator& self, const py::buffer& input, const std::optional<py::buffer>& output,
             std::uint32_t root, const std::string& op,
             double timeout) { self.reduce_async(input, output, root, op, timeout)->wait(); },
          py::arg("input"), py::arg("output") = py::none(), py::arg("root") = 0, py::arg("op") = "sum",
          py::arg("timeout") = kDefaultTimeoutSeconds,
          "Adds everybody's elements into the root's output, or in place without one. Elements are float32, "
          "float64, int32 or int64; the order of additions is the plan's, so the same plan gives the same "
          "bits.")
      .def("reduce_async", &PythonCommunicator::reduce_async, py::arg("input"),
           py::arg("output") = py::none(), py::arg("root") = 0, py::arg("op") = "sum",
           py::arg("timeout") = kDefaultTimeoutSeconds)
      .def(
          "all_reduce",
          [](PythonCommunicator& self, const py::buffer& input, const std::optional<py::buffer>& output,
             const std::string& op,
             double timeout) { self.all_reduce_async(input, output, op, timeout)->wait(); },
          py::arg("input"), py::arg("output") = py::none(), py::arg("op") = "sum",
          py::arg("timeout") = kDefaultTimeoutSeconds,
          "Adds everybody's elements into everybody's output, or in place without one: all get the same "
          "bits.")
      .def("all_reduce_async", &PythonCommunicator::all_reduce_async, py::arg("input"),
           py::arg("output") = py::none(), py::arg("op") = "sum",
           py::arg("timeout") = kDefaultTimeoutSeconds);
}

}  // namespace square::python
