#include "square/communicator.h"

#include <pybind11/typing.h>

#include <utility>

#include "collective.h"
#include "compression.h"
#include "element.h"
#include "flight_records.h"
#include "whole_number.h"
#include "work.h"

namespace square::python {
namespace {

using CollectiveTuple =
    std::tuple<std::string, Count<"the root of collectives">, Size<"the bytes of collectives">, double>;

class PythonCommunicator {
 public:
  PythonCommunicator(std::shared_ptr<MemberHost> node, GroupSpec group, Rank rank, double timeout)
      : node_(std::move(node)),
        communicator_(check(unlocked(
            [&] { return Communicator::create(*node_, std::move(group), rank, from_seconds(timeout)); }))),
        rank_(communicator_->rank().value()),
        size_(communicator_->size()),
        records_(FlightRecords::instance().add(*communicator_)) {}

  PythonCommunicator(std::shared_ptr<MemberHost> node, std::unique_ptr<Communicator> communicator)
      : node_(std::move(node)),
        communicator_(std::move(communicator)),
        rank_(communicator_->rank().value()),
        size_(communicator_->size()),
        records_(FlightRecords::instance().add(*communicator_)) {}

  // A thread that the destructors wait for may itself wait for the interpreter's lock.
  ~PythonCommunicator() {
    unlocked([&] {
      records_.reset();
      communicator_.reset();
    });
  }
  PythonCommunicator(const PythonCommunicator&) = delete;
  PythonCommunicator& operator=(const PythonCommunicator&) = delete;

  static std::unique_ptr<PythonCommunicator> join(std::shared_ptr<MemberHost> node, const std::string& group,
                                                  double timeout) {
    auto joined = check(unlocked([&] { return Communicator::join(*node, group, from_seconds(timeout)); }));
    return std::make_unique<PythonCommunicator>(std::move(node), std::move(joined));
  }

  std::unique_ptr<PythonCommunicator> shrink(double timeout, bool allow_minority) {
    return go_on([&](Communicator& group) { return group.shrink(from_seconds(timeout), allow_minority); });
  }
  std::unique_ptr<PythonCommunicator> grow(Count<"joiners"> joiners, double timeout) {
    return go_on([&](Communicator& group) { return group.grow(joiners, from_seconds(timeout)); });
  }
  // This one is closed where the next one is made, and stays for another attempt where it is not.
  template <typename Next>
  std::unique_ptr<PythonCommunicator> go_on(const Next& next_of) {
    std::shared_ptr<Communicator> group = opened();
    auto next = check(unlocked([&] { return next_of(*group); }));
    communicator_ = nullptr;
    unlocked([&] {
      records_.reset();
      group.reset();
    });
    return std::make_unique<PythonCommunicator>(node_, std::move(next));
  }

  [[nodiscard]] std::string name() const { return opened()->name(); }
  [[nodiscard]] std::vector<std::uint32_t> origin() const {
    std::vector<std::uint32_t> ranks;
    for (const Rank rank : opened()->origin().ranks) ranks.push_back(rank.value());
    return ranks;
  }
  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // Whoever is in a call of another thread ends it first.
  void close(double timeout) {
    std::shared_ptr<Communicator> gone = std::exchange(communicator_, nullptr);
    if (gone == nullptr) return;
    const Status outcome = unlocked([&] {
      Status ended = gone->close(from_seconds(timeout));
      records_.reset();
      gone.reset();
      return ended;
    });
    check(outcome);
  }
  // At the end of a block that an exception leaves, it must not be hidden by another, nor wait.
  void exit(const py::args& raised) {
    if (raised.empty() || raised[0].is_none()) return close(kCloseSeconds);
    try {
      close(0);
    } catch (const py::error_already_set&) {
    }
  }
  static constexpr double kCloseSeconds = 10.0;

  [[nodiscard]] py::typing::Dict<py::str, py::object> flight_record(double patience) const {
    const auto group = opened();
    const std::string json = unlocked([&] { return to_json(group->flight_record(from_seconds(patience))); });
    return py::module_::import("json").attr("loads")(json);
  }

  using Started = std::shared_ptr<BufferWork>;
  using Name = std::string;
  using OptionalName = std::optional<std::string>;
  using OptionalBuffer = std::optional<Data>;
  using OptionalFeedback = std::optional<std::shared_ptr<ErrorFeedback>>;

  Started broadcast(const Data& data, Count<"root"> root, const OptionalName& dtype, double timeout) {
    // Asking for a writable view of a destination refuses read-only objects here.
    Buffers held{request(data, root != rank())};
    const std::span bytes = bytes_of(*held.front());
    const ElementType elements = known_element_type(*held.front(), dtype);
    return begin(held, [&](Communicator& group) {
      return group.broadcast_async(bytes, Rank(root), from_seconds(timeout), elements);
    });
  }

  Started reduce(const Data& input, const OptionalBuffer& output, Count<"root"> root, const Name& op,
                 const OptionalName& dtype, double timeout) {
    const bool is_root = root == rank();
    const Summands sum = summands(input, is_root ? output : std::nullopt, is_root, op, dtype);
    return begin(sum.buffers, [&](Communicator& group) {
      return group.reduce_async(sum.input, sum.output, sum.reduction, Rank(root), from_seconds(timeout));
    });
  }

  Started all_reduce(const Data& input, const OptionalBuffer& output, const Name& op,
                     const OptionalName& dtype, const Name& algorithm, const CompressionChoice& compression,
                     const OptionalFeedback& feedback, double timeout) {
    const Summands sum = summands(input, output, true, op, dtype);
    const AllReduceAlgorithm chosen = algorithm_named(algorithm);
    const Compression compressed = chosen_compression(compression);
    if (compressed.kind != CompressionKind::kNone && chosen != AllReduceAlgorithm::kPlanned)
      raise(invalid_argument("compression goes with the algorithm \"planned\" only"));
    if (compressed.kind == CompressionKind::kNone && !feedback) {
      return begin(sum.buffers, [&](Communicator& group) {
        return group.all_reduce_async(sum.input, sum.output, sum.reduction, from_seconds(timeout), chosen);
      });
    }
    return compressed_all_reduce(sum, compressed, feedback, timeout);
  }

  Started all_gather(const Data& input, const RankBuffers& output, const OptionalName& dtype,
                     double timeout) {
    Buffers held{request(input, false)};
    const std::span bytes = bytes_of(*held.front());
    const ElementType elements = known_element_type(*held.front(), dtype);
    const auto outputs = cut(output, size(), {}, true, held);
    return begin(held, [&](Communicator& group) {
      return group.all_gather_async(bytes, outputs, from_seconds(timeout), elements);
    });
  }

  Started reduce_scatter(const RankBuffers& input, const Data& output, const Name& op,
                         const OptionalName& dtype, double timeout) {
    Buffers held{request(output, true)};
    const Reduction reduction = reduction_of(*held.front(), op, dtype);
    const std::span bytes = bytes_of(*held.front());
    const auto inputs = read_only(cut(input, size(), {}, false, held));
    for (const auto& view : std::span(held).subspan(1)) same_type(*view, reduction, dtype);
    return begin(held, [&](Communicator& group) {
      return group.reduce_scatter_async(inputs, bytes, reduction, from_seconds(timeout));
    });
  }

  Started all_to_all(const RankBuffers& input, const RankBuffers& output, const Sizes& input_bytes,
                     const Sizes& output_bytes, double timeout) {
    Buffers held;
    const auto inputs = read_only(cut(input, size(), input_bytes, false, held));
    const auto outputs = cut(output, size(), output_bytes, true, held);
    return begin(held, [&](Communicator& group) {
      return group.all_to_all_async(inputs, outputs, from_seconds(timeout));
    });
  }

  Started gather(const Data& input, const std::optional<RankBuffers>& output, Count<"root"> root,
                 double timeout) {
    Buffers held{request(input, false)};
    const std::span bytes = bytes_of(*held.front());
    std::vector<std::span<std::byte>> outputs;
    if (root == rank()) outputs = cut(needed(output, "an output"), size(), {}, true, held);
    return begin(held, [&](Communicator& group) {
      return group.gather_async(bytes, outputs, Rank(root), from_seconds(timeout));
    });
  }

  Started scatter(const std::optional<RankBuffers>& input, const Data& output, Count<"root"> root,
                  double timeout) {
    Buffers held{request(output, true)};
    const std::span bytes = bytes_of(*held.front());
    std::vector<std::span<const std::byte>> inputs;
    if (root == rank()) inputs = read_only(cut(needed(input, "an input"), size(), {}, false, held));
    return begin(held, [&](Communicator& group) {
      return group.scatter_async(inputs, bytes, Rank(root), from_seconds(timeout));
    });
  }

  Started send(const Data& data, Count<"to"> to, Count<"tag"> tag, double timeout) {
    Buffers held{request(data, false)};
    const std::span bytes = bytes_of(*held.front());
    return begin(held, [&](Communicator& group) {
      return group.send_async(bytes, Rank(to), tag, from_seconds(timeout));
    });
  }

  Started receive(const Data& data, std::optional<Count<"source">> source, Count<"tag"> tag, double timeout) {
    Buffers held{request(data, true)};
    const std::span bytes = bytes_of(*held.front());
    return begin(held, [&](Communicator& group) {
      return source ? group.receive_async(bytes, Rank(*source), tag, from_seconds(timeout))
                    : group.receive_any_async(bytes, tag, from_seconds(timeout));
    });
  }

  Started barrier(double timeout) {
    return begin({}, [&](Communicator& group) { return group.barrier_async(from_seconds(timeout)); });
  }

 private:
  // Begins an operation, without the interpreter's lock: it may wait for a plan.
  template <typename Begin>
  Started begin(Buffers held, Begin operation) {
    const std::shared_ptr<Communicator> group = opened();
    return std::make_shared<BufferWork>(check(unlocked([&] { return operation(*group); })), std::move(held));
  }

  [[nodiscard]] std::shared_ptr<Communicator> opened() const {
    if (communicator_ == nullptr) raise(failed_precondition("the communicator was closed: make a new one"));
    return communicator_;
  }

  static const RankBuffers& needed(const std::optional<RankBuffers>& buffers, const char* what) {
    if (!buffers) raise(invalid_argument(std::string("the root needs ") + what));
    return *buffers;
  }

  static void same_type(const py::buffer_info& view, const Reduction& reduction, const OptionalName& dtype) {
    if (element_type(view, dtype) == reduction.type) return;
    raise(invalid_argument("the output has elements of another type than the input"));
  }

  struct Summands {
    Buffers buffers;
    std::span<const std::byte> input;
    std::span<std::byte> output;  // empty where there is no result
    Reduction reduction;
  };

  // Without an output the result takes the input's place.
  static Summands summands(const Data& input, const std::optional<Data>& output, bool has_result,
                           const std::string& op, const std::optional<std::string>& dtype) {
    Summands sum;
    auto view = request(input, has_result && !output);
    sum.reduction = reduction_of(*view, op, dtype);
    sum.input = bytes_of(*view);
    if (has_result) sum.output = bytes_of(*view);
    sum.buffers.push_back(std::move(view));
    if (!output) return sum;
    auto result = request(*output, true);
    same_type(*result, sum.reduction, dtype);
    sum.output = bytes_of(*result);
    sum.buffers.push_back(std::move(result));
    return sum;
  }

  Started compressed_all_reduce(const Summands& sum, const Compression& compression,
                                const OptionalFeedback& feedback, double timeout) {
    if (compression.error_feedback != feedback.has_value()) {
      raise(invalid_argument(
          to_string(compression) +
          (feedback ? " keeps nothing for the next call: leave feedback out, or say \":feedback\" behind it"
                    : " keeps what it does not send: pass feedback=ErrorFeedback(), one for every tensor, or "
                      "say \":no-feedback\" behind it")));
    }
    std::span<float> residual;
    if (feedback) residual = (*feedback)->begin(sum.input.size() / sizeof(float));
    auto started = begin(sum.buffers, [&](Communicator& group) {
      return group.compressed_all_reduce_async(sum.input, sum.output, sum.reduction, compression, residual,
                                               from_seconds(timeout));
    });
    if (feedback) started->uses(**feedback);
    return started;
  }

  std::shared_ptr<MemberHost> node_;
  std::shared_ptr<Communicator> communicator_;  // none once it is closed
  const std::uint32_t rank_;
  const std::size_t size_;
  std::shared_ptr<void> records_;  // goes before the communicator
};

std::unique_ptr<PythonCommunicator> create(std::shared_ptr<MemberHost> node, std::string group,
                                           std::string tenant, std::vector<std::string> nodes,
                                           Count<"rank"> rank,
                                           const std::vector<CollectiveTuple>& collectives, double timeout,
                                           Count<"redundancy"> redundancy) {
  GroupSpec spec{std::move(group), std::move(tenant), std::move(nodes), {}};
  spec.redundancy = redundancy;
  for (const auto& [op, root, size_bytes, weight] : collectives) {
    spec.collectives.push_back({check(parse_collective_op(op)), Rank(root), weight, size_bytes, {}, 0});
  }
  return std::make_unique<PythonCommunicator>(std::move(node), std::move(spec), Rank(rank), timeout);
}

constexpr double kDefaultTimeoutSeconds = 300.0;
constexpr double kPatienceSeconds = 1.0;

using Class = py::class_<PythonCommunicator>;

// A method that waits, unless it is called as torch.distributed's are for a Work, and its twin that never
// does.
template <typename... Arguments, typename... Extra>
void define(Class& communicator, const std::string& name,
            std::shared_ptr<BufferWork> (PythonCommunicator::*method)(Arguments...), const char* text,
            const Extra&... extra) {
  const auto timeout = py::arg("timeout") = kDefaultTimeoutSeconds;
  const auto wait = [method](PythonCommunicator& self, Arguments... arguments,
                             bool async_op) -> std::optional<std::shared_ptr<BufferWork>> {
    auto work = (self.*method)(std::forward<Arguments>(arguments)...);
    if (async_op) return work;
    work->wait();
    return std::nullopt;
  };
  communicator.def(name.c_str(), wait, extra..., timeout, py::arg("async_op") = false, text);
  communicator.def((name + "_async").c_str(), method, extra..., timeout,
                   ("As " + name + "(async_op=True).").c_str());
}

void define_sums(Class& communicator) {
  const auto op = py::arg("op") = "sum";
  const auto dtype = py::arg("dtype") = py::none();
  const auto output = py::arg("output") = py::none();
  define(
      communicator, "reduce", &PythonCommunicator::reduce,
      "Adds everybody's elements into the root's output, or in place without one. ``op``: sum, product, min, "
      "max, average, and, or, xor. ``dtype`` names the elements where the buffer cannot, such as "
      "\"bfloat16\". The order of additions is the plan's, so the same plan gives the same bits.",
      py::arg("input"), output, py::arg("root") = 0, op, dtype);
  define(
      communicator, "all_reduce", &PythonCommunicator::all_reduce,
      "Adds everybody's elements into everybody's output, or in place without one: all get the same bits. "
      "See reduce(). ``algorithm``: \"planned\", the faster one, or \"ring\", where every rank sends to the "
      "next one only, and the order of additions is that of the ranks under any plan. ``compression``, of "
      "float32 by sum or average: a Compression or its text, such as \"int8\"; all members say the same. "
      "``feedback``: an ErrorFeedback, for a compression that has error feedback.",
      py::arg("input"), output, op, dtype, py::arg("algorithm") = "planned",
      py::arg("compression") = py::none(), py::arg("feedback") = py::none());
  define(
      communicator, "reduce_scatter", &PythonCommunicator::reduce_scatter,
      "Adds everybody's part for rank r into the output of rank r. ``input`` is a buffer for every rank, or "
      "one that is cut evenly. See reduce().",
      py::arg("input"), py::arg("output"), op, dtype);
  define(communicator, "barrier", &PythonCommunicator::barrier, "Returns when every member has called it.");
}

void define_moves(Class& communicator) {
  const auto root = py::arg("root") = 0;
  const auto tag = py::arg("tag") = 0;
  const auto dtype = py::arg("dtype") = py::none();
  const auto none = py::none();
  define(communicator, "broadcast", &PythonCommunicator::broadcast,
         "Copies the root's bytes into everybody's buffer, without a copy in between. Where the policy codes "
         "with floats, elements of float32 may come back rounded; ``dtype``: the root's elements, where the "
         "buffer does not say what they are.",
         py::arg("data"), root, dtype);
  define(communicator, "all_gather", &PythonCommunicator::all_gather,
         "Copies everybody's bytes to everybody. ``output`` is a buffer for every rank, or one that is cut "
         "evenly. ``dtype``: see broadcast().",
         py::arg("input"), py::arg("output"), dtype);
  define(communicator, "all_to_all", &PythonCommunicator::all_to_all,
         "Part r of ``input`` goes to rank r, part r of ``output`` comes from it. Each is a buffer for every "
         "rank, or one that is cut evenly, or into ``input_bytes`` and ``output_bytes``.",
         py::arg("input"), py::arg("output"), py::arg("input_bytes") = none, py::arg("output_bytes") = none);
  define(
      communicator, "gather", &PythonCommunicator::gather,
      "Copies everybody's bytes to the root, which has a buffer for every rank, or one that is cut evenly.",
      py::arg("input"), py::arg("output") = none, root);
  define(communicator, "scatter", &PythonCommunicator::scatter,
         "Copies part r of the root's input, a buffer for every rank or one that is cut evenly, to rank r.",
         py::arg("input"), py::arg("output"), root);
  define(communicator, "send", &PythonCommunicator::send,
         "Copies bytes to one member; returns when it has them. Messages with the same tag arrive in their "
         "order; use few tags.",
         py::arg("data"), py::arg("to"), tag);
  define(communicator, "receive", &PythonCommunicator::receive,
         "The other end of send(). Without a source: from whichever member sends first, see Work.source.",
         py::arg("data"), py::arg("source") = none, tag);
}

void define_changes(Class& communicator) {
  const auto timeout = py::arg("timeout") = kDefaultTimeoutSeconds;
  communicator
      .def(
          "shrink", &PythonCommunicator::shrink, timeout, py::arg("allow_minority") = false,
          "The same group without the members that are gone: a Communicator that every other member gets, in "
          "the order of their ranks, also where this one has failed. Each of them calls it. Who is neither "
          "here nor gone, a process that is paused, is waited for, and then named by a "
          "DeadlineExceededError: "
          "call it again. FailedPreconditionError where the others went on without this member, or may have "
          "while its process was stopped. Where members may live that nobody hears, and go on elsewhere, "
          "more than half of all must be here, or half with the lowest rank; with ``allow_minority``, on all "
          "of them, any may, and two groups may go on that know nothing of each other. This communicator is "
          "closed.")
      .def("grow", &PythonCommunicator::grow, py::arg("joiners"), timeout,
           "As shrink(), and so many others join behind the members, with Communicator.join(), in the order "
           "of "
           "their nodes' names.")
      .def_static("join", &PythonCommunicator::join, py::arg("node"), py::arg("group"), timeout,
                  "Joins the group of that name, the one that it had at first, whose members call grow().");
}

}  // namespace

void bind_communicator(py::module_& module) {
  bind_work(module);
  Class communicator(module, "Communicator",
                     "Operations on a group, as one member sees them: see square/communicator.h. Memory is "
                     "anything with the buffer protocol or, on the CPU, DLPack: NumPy arrays, tensors of "
                     "torch. Every call waits, unless ``async_op``: then it returns a Work.");
  communicator
      .def(py::init(&create), py::arg("node"), py::arg("group"), py::arg("tenant"), py::arg("nodes"),
           py::arg("rank"), py::arg("collectives") = std::vector<CollectiveTuple>{},
           py::arg("timeout") = kDefaultTimeoutSeconds, py::arg("redundancy") = 0)
      .def_property_readonly("name", &PythonCommunicator::name,
                             "Of the group: what shrink() and grow() return has another.")
      .def_property_readonly(
          "origin", &PythonCommunicator::origin,
          "The ranks that the first of its members had in the group that this one was before; "
          "empty for a group that was none.")
      .def_property_readonly("rank", &PythonCommunicator::rank)
      .def_property_readonly("size", &PythonCommunicator::size)
      .def("close", &PythonCommunicator::close, py::arg("timeout") = PythonCommunicator::kCloseSeconds,
           "Leaves the group: later calls raise FailedPreconditionError at once. Waits for what this member "
           "has called, ``timeout`` seconds at most, and ends the rest on every member: "
           "DeadlineExceededError. When all members have closed it the group is no more and its name free. "
           "The node stays. Closing twice does nothing.")
      .def("flight_record", &PythonCommunicator::flight_record, py::arg("patience") = kPatienceSeconds,
           "What this member has called last: 1,000 operations at most, each with when it was called, "
           "planned, "
           "moved its first and last byte and was over, what it waits for, and its outcome. A dictionary of "
           "the format square.flight_record/1 (docs/doctor.md). The node says what is waited for: blocks for "
           "``patience`` seconds at most.")
      .def(
          "__enter__", [](PythonCommunicator& self) -> PythonCommunicator& { return self; },
          py::return_value_policy::reference)
      .def("__exit__", [](PythonCommunicator& self, const py::args& raised) { self.exit(raised); });
  define_moves(communicator);
  define_sums(communicator);
  define_changes(communicator);
}

}  // namespace square::python
