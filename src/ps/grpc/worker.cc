// A worker as a process runs it: its state machine on a strand, and the trainer's thread beside it.
#include "ps/worker/worker.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "ps/grpc/member.h"
#include "ps/worker/parameters.h"
#include "square/parameter_server.h"

namespace square::ps {
namespace {

// Chunks that others hold may come back: how often it asks.
constexpr Duration kAskAgain = std::chrono::milliseconds(200);

v1::PsModel to_message(const std::vector<TensorSpec>& model) {
  v1::PsModel message;
  for (const TensorSpec& tensor : model) {
    v1::PsTensor& one = *message.add_tensors();
    one.set_name(tensor.name);
    one.set_dtype(tensor.dtype);
    for (const std::uint64_t extent : tensor.shape) one.add_shape(extent);
  }
  return message;
}

// What the trainer's thread sees of the state.
struct View {
  bool is_welcome = false;
  Status refusal;
  bool can_push = false;
  bool must_wait = false;
  bool has_work = false;
  bool is_finished = false;
  std::optional<ReadyVersion> ready;
  PushState push = PushState::kNone;
  std::string reason;
  Decision decision = Decision::kTaken;
  std::uint64_t base_version = 0;
  std::uint64_t tokens = 0;
};

}  // namespace

class Worker::Core {
 public:
  static Result<std::unique_ptr<Core>> make(const WorkerOptions& options,
                                            const std::vector<TensorSpec>& specs, ConstTensors first) {
    const v1::PsModel model = to_message(specs);
    SQUARE_RETURN_IF_ERROR(check_model(model));
    SQUARE_RETURN_IF_ERROR(check_tensors(model, first));
    auto core = std::make_unique<Core>();
    SQUARE_ASSIGN_OR_RETURN(core->member_, Member::join(options.member));
    core->model_ = model;
    core->begin(first);
    return core;
  }
  ~Core() { leave(); }

  bool wait_for_first(Duration timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout,
                             [this] { return view_.ready.has_value() || is_final(view_.refusal); });
  }

  bool wait(Duration timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] {
      return view_.ready.has_value() || !view_.must_wait || is_final(view_.refusal);
    });
  }

  Status wait_for_version(Tensors tensors, Duration timeout) {
    std::unique_lock lock(mutex_);
    const bool is_there = changed_.wait_for(
        lock, timeout, [this] { return view_.ready.has_value() || is_final(view_.refusal); });
    if (!view_.ready) {
      if (!view_.refusal.is_ok()) return view_.refusal;
      lock.unlock();
      return deadline_exceeded(fmt::format("{} after {:.3g} s{}", "there is no version of the model",
                                           to_seconds(timeout), is_there ? "" : waiting_for()));
    }
    lock.unlock();
    return adopt(tensors) ? Status() : wait_for_version(tensors, timeout);
  }

  Status consumed(std::uint64_t tokens, std::vector<std::uint64_t> chunks) {
    return on_strand([&] { state_->consume({tokens, std::move(chunks)}); });
  }

  Status rebase(ConstTensors tensors) {
    SQUARE_RETURN_IF_ERROR(check_tensors(model_, tensors));
    parameters_->rebase(tensors);
    return {};
  }

  Status push(ConstTensors tensors) {
    SQUARE_RETURN_IF_ERROR(check_tensors(model_, tensors));
    const View now = view();
    if (!now.has_work) {
      return failed_precondition("nothing was consumed since the last push: call consumed() with its tokens");
    }
    if (!now.can_push)
      return unavailable(now.is_welcome ? "the last push is not settled" : "no master is there");
    parameters_->set_aside(tensors);
    return on_strand([&] {
      if (state_->can_push()) state_->push();
    });
  }

  Result<SyncReport> pull(Tensors tensors, Duration timeout) {
    SQUARE_RETURN_IF_ERROR(check_tensors(model_, tensors));
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [this] {
      return view_.ready.has_value() || !view_.must_wait || is_final(view_.refusal);
    });
    const View now = view_;
    lock.unlock();
    if (const auto adopted = adopt(tensors)) {
      SyncReport report{SyncOutcome::kAdopted, adopted->version, now.decision, now.reason};
      if (now.push == PushState::kRefused) report.outcome = SyncOutcome::kRefused;
      if (has_dropped_) report.reason = "what was done since the push was not finite, and is dropped";
      return report;
    }
    if (is_final(now.refusal)) return now.refusal;
    const bool is_skipped = now.push == PushState::kSkipped;
    return SyncReport{is_skipped ? SyncOutcome::kSkipped : SyncOutcome::kGoesOn, now.base_version,
                      now.decision, now.reason};
  }

  Result<SyncReport> sync(Tensors tensors, Duration timeout) {
    const View now = view();
    if (!now.ready && now.can_push) {
      const std::vector<std::span<const float>> read(tensors.begin(), tensors.end());
      const Status pushed = push(read);
      if (!pushed.is_ok() && pushed.code() != StatusCode::kUnavailable) return pushed;
    }
    return pull(tensors, timeout);
  }

  Result<std::vector<std::uint64_t>> lease(std::uint32_t chunks, Duration timeout) {
    const TimePoint end = steady_clock().now() + timeout;
    for (;;) {
      std::vector<std::uint64_t> leased;
      SQUARE_RETURN_IF_ERROR(on_strand([&] {
        leased = state_->take_leases();
        if (leased.empty() && !state_->is_finished()) state_->lease(chunks);
      }));
      if (!leased.empty()) return leased;
      std::unique_lock lock(mutex_);
      if (view_.is_finished) return std::vector<std::uint64_t>();
      const TimePoint now = steady_clock().now();
      if (now >= end) return deadline_exceeded("no chunk is free, and not all are done");
      // An answer wakes; an empty one is asked for again after a while.
      changed_.wait_for(lock, std::min<Duration>(end - now, kAskAgain),
                        [this] { return view_.is_finished || has_leases_; });
      if (is_final(view_.refusal)) return view_.refusal;
    }
  }

  [[nodiscard]] View view() const {
    const std::lock_guard lock(mutex_);
    return view_;
  }

  void leave() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(has_left_, true)) return;
    }
    if (!state_) return;
    static_cast<void>(on_strand([&] { state_->leave(); }));
    member_->stop();
    parameters_->stop();
  }

 private:
  // What does not pass by itself: not a name that is taken until a lease is over, nor a master that is full.
  static bool is_final(const Status& refusal) {
    return !refusal.is_ok() && refusal.code() != StatusCode::kAlreadyExists &&
           refusal.code() != StatusCode::kResourceExhausted;
  }

  template <typename Spans>
  static Status check_tensors(const v1::PsModel& model, const Spans& tensors) {
    if (tensors.size() != static_cast<std::size_t>(model.tensors_size())) {
      return invalid_argument(
          fmt::format("{} tensors for a model of {}", tensors.size(), model.tensors_size()));
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const v1::PsTensor& tensor = model.tensors(static_cast<int>(i));
      if (tensors[i].size() == elements_of(tensor)) continue;
      return invalid_argument(fmt::format("tensor \"{}\" has {} elements, not {}", tensor.name(),
                                          tensors[i].size(), elements_of(tensor)));
    }
    return {};
  }

  void begin(ConstTensors first) {
    parameters_ = std::make_unique<Parameters>(elements_of(model_), member_->lines(), member_->strand());
    parameters_->set_aside(first);  // what the first worker of all brings
    const MemberOptions& options = member_->options();
    state_.emplace(WorkerIdentity{options.name, options.name, member_->incarnation(), model_}, *parameters_,
                   [this](v1::PsReport report) { member_->send(std::move(report)); });
    member_->attach({[this] {
                       state_->on_attached();
                       look();
                     },
                     [this](const v1::PsOrder& order) {
                       if (order.has_welcome()) {
                         parameters_->set_pushes(order.welcome().pushes_parameters(),
                                                 order.welcome().is_bfloat16());
                       }
                       state_->on_order(order);
                       look();
                     },
                     [this] {
                       state_->on_detached();
                       look();
                     },
                     [this] {
                       state_->on_time(steady_clock().now());
                       look();
                     }});
  }

  // On the strand.
  void look() {
    const std::lock_guard lock(mutex_);
    view_.is_welcome = state_->is_welcome();
    view_.refusal = state_->refusal();
    view_.can_push = state_->can_push();
    view_.must_wait = state_->must_wait();
    view_.has_work = state_->has_work();
    view_.is_finished = state_->is_finished();
    view_.ready = state_->ready();
    view_.push = state_->push_state();
    view_.reason = state_->push_reason();
    view_.decision = state_->decision();
    view_.base_version = state_->base_version();
    view_.tokens = state_->tokens();
    has_leases_ = state_->has_leases();
    changed_.notify_all();
  }

  Status on_strand(const std::function<void()>& task) {
    const bool is_done = member_->run([&] {
      task();
      look();
    });
    return is_done ? Status() : failed_precondition("this worker has left");
  }

  // None: it is not there any more.
  std::optional<ReadyVersion> adopt(Tensors tensors) {
    std::optional<ReadyVersion> ready;
    static_cast<void>(on_strand([&] { ready = state_->begin_adopting(); }));
    if (!ready) return ready;
    const bool has_dropped = parameters_->adopt(tensors, ready->drops_work);
    static_cast<void>(on_strand([&] { state_->on_adopted(*ready, has_dropped); }));
    has_dropped_ = has_dropped;
    return ready;
  }

  [[nodiscard]] std::string waiting_for() const {
    const auto answer =
        ask_master(member_->options().master_address, member_->options().identity, std::chrono::seconds(2));
    if (!answer.is_ok()) return ": " + answer.status().message();
    return answer->waits_for().empty() ? "" : ": the master waits for " + answer->waits_for();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  View view_;
  bool has_leases_ = false;
  bool has_left_ = false;
  bool has_dropped_ = false;  // of the trainer's thread
  v1::PsModel model_;
  std::unique_ptr<Member> member_;
  std::unique_ptr<Parameters> parameters_;
  std::optional<WorkerState> state_;  // of the strand
};

Result<std::unique_ptr<Worker>> Worker::join(WorkerOptions options, const std::vector<TensorSpec>& model,
                                             Tensors tensors, Duration timeout) {
  const std::vector<std::span<const float>> first(tensors.begin(), tensors.end());
  SQUARE_ASSIGN_OR_RETURN(auto worker, start(std::move(options), model, first));
  SQUARE_RETURN_IF_ERROR(worker->begin(tensors, timeout));
  return worker;
}

Result<std::unique_ptr<Worker>> Worker::start(WorkerOptions options, const std::vector<TensorSpec>& model,
                                              ConstTensors first) {
  SQUARE_ASSIGN_OR_RETURN(auto core, Core::make(options, model, first));
  return std::unique_ptr<Worker>(new Worker(std::move(core)));
}

Status Worker::begin(Tensors tensors, Duration timeout) { return core_->wait_for_version(tensors, timeout); }

Worker::Worker(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Worker::~Worker() = default;
Status Worker::consumed(std::uint64_t tokens, std::vector<std::uint64_t> chunks) {
  return core_->consumed(tokens, std::move(chunks));
}
Status Worker::rebase(ConstTensors tensors) { return core_->rebase(tensors); }
Result<SyncReport> Worker::sync(Tensors tensors, Duration timeout) { return core_->sync(tensors, timeout); }
Status Worker::push(ConstTensors tensors) { return core_->push(tensors); }
Result<SyncReport> Worker::pull(Tensors tensors, Duration timeout) { return core_->pull(tensors, timeout); }
Result<std::vector<std::uint64_t>> Worker::lease(std::uint32_t chunks, Duration timeout) {
  return core_->lease(chunks, timeout);
}
bool Worker::wait(Duration timeout) { return core_->wait(timeout); }
bool Worker::wait_for_first(Duration timeout) { return core_->wait_for_first(timeout); }
bool Worker::can_push() const { return core_->view().can_push; }
bool Worker::has_work() const { return core_->view().has_work; }
std::uint64_t Worker::version() const { return core_->view().base_version; }
std::uint64_t Worker::tokens() const { return core_->view().tokens; }
void Worker::leave() { core_->leave(); }

}  // namespace square::ps
