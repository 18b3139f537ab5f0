// A worker: trains on a base, pushes how far it got, and adopts what comes of it.
//
// A state machine: the line to the master, its orders, and what the trainer does go in. What the trainer has
// to know is state: it looks after every event.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/worker/parameter_host.h"
#include "square/outer_optimizer.h"

namespace square::ps {

struct WorkerIdentity {
  std::string name;
  std::string node;
  std::uint64_t incarnation = 0;
  v1::PsModel model;
};

// What was done since the base, or since the last push.
struct Consumed {
  std::uint64_t tokens = 0;
  std::vector<std::uint64_t> chunks;

  Consumed& operator+=(const Consumed& other) {
    tokens += other.tokens;
    chunks.insert(chunks.end(), other.chunks.begin(), other.chunks.end());
    return *this;
  }
};

// What became of the last push, as far as it is known.
enum class PushState : std::uint8_t {
  kNone,       // there is none, or it is settled
  kSent,       // on its way
  kAccepted,   // all servers have it
  kCommitted,  // a version with it counts: it is adopted next
  kSkipped,    // nothing was made of it: the work is carried on
  kRefused,    // it never counts: the newest version is adopted, and the work is dropped
};

// A version that is here, and counts.
struct ReadyVersion {
  std::uint64_t version = 0;
  std::uint64_t maker = 0;
  std::uint64_t tokens = 0;  // in it
  // In place of all that the trainer has, not only of its base and what it pushed.
  bool drops_work = false;
};

// A master is silent for longer than this: the trainer goes on.
inline constexpr Duration kWorkerPatience = std::chrono::milliseconds(1500);

// Not thread-safe; must not outlive its host, nor be destroyed while the host has work of it.
class WorkerState {
 public:
  WorkerState(WorkerIdentity identity, ParameterHost& host, std::function<void(v1::PsReport)> send);

  // The line.
  void on_attached();
  void on_order(const v1::PsOrder& order);
  void on_detached();
  void on_time(TimePoint now);
  // A master was there, has welcomed it, and has not been lost.
  [[nodiscard]] bool is_welcome() const { return is_welcome_; }
  // Why the master does not want it; OK otherwise.
  [[nodiscard]] const Status& refusal() const { return refusal_; }

  // The trainer.
  // Nothing where all that was done is to be dropped.
  void consume(const Consumed& done) {
    if (state_ != PushState::kRefused) since_ += done;
  }
  [[nodiscard]] bool can_push() const;
  // Something was consumed since the base.
  [[nodiscard]] bool has_work() const { return since_.tokens > 0; }
  // What the host has set aside is a push of all that was consumed since the base. Its number. Precondition:
  // can_push().
  std::uint64_t push();
  // What is to be adopted, if there is something.
  [[nodiscard]] std::optional<ReadyVersion> ready() const;
  // The trainer takes it over, and nothing else is received meanwhile; then it says so, and whether it had to
  // drop what it did since the push: a NaN stays one.
  std::optional<ReadyVersion> begin_adopting();
  void on_adopted(const ReadyVersion& version, bool has_dropped_work = false);
  void lease(std::uint32_t chunks);
  // Chunks that came since the last call.
  std::vector<std::uint64_t> take_leases() { return std::exchange(leased_, {}); }
  [[nodiscard]] bool has_leases() const { return !leased_.empty(); }
  [[nodiscard]] bool is_finished() const { return is_finished_; }
  void leave();

  // Something comes soon that the next steps had better begin with. Where it may be long in coming, or there
  // is trouble, the trainer goes on meanwhile, and what it does is carried over.
  [[nodiscard]] bool must_wait() const;
  [[nodiscard]] PushState push_state() const { return state_; }
  [[nodiscard]] const std::string& push_reason() const { return reason_; }
  // Of the last push that was committed.
  [[nodiscard]] Decision decision() const { return decision_; }
  [[nodiscard]] std::uint64_t base_version() const { return base_version_; }
  [[nodiscard]] std::uint64_t version() const { return committed_; }
  // In the newest version that it was told the tokens of, and consumed here since its base.
  [[nodiscard]] std::uint64_t tokens() const { return base_tokens_ + pushed_.tokens + since_.tokens; }
  // Of all chunks that it holds: those consumed and not, and those in the push.
  [[nodiscard]] const std::set<std::uint64_t>& chunks() const { return chunks_; }

 private:
  [[nodiscard]] bool is_open() const { return state_ == PushState::kSent || state_ == PushState::kAccepted; }
  void on_welcome(const v1::PsWelcome& welcome);
  void on_outcome(const v1::PsPushOutcome& outcome);
  void send_push(const v1::PsTransfer& transfer);
  void take_version(const v1::PsTransfer& transfer);
  void on_taken(const v1::PsTransfer& transfer, const Status& status);
  void carry_on();
  void start_over();
  void drop_work();

  const WorkerIdentity identity_;
  ParameterHost& host_;
  const std::function<void(v1::PsReport)> send_;
  const std::uint64_t elements_;
  std::uint64_t line_ = 0;
  bool is_attached_ = false;
  bool is_welcome_ = false;
  Status refusal_;

  std::uint64_t base_version_ = 0;
  std::uint64_t base_maker_ = 0;
  std::uint64_t base_tokens_ = 0;
  bool drops_work_ = true;  // of the version that comes; the first one is adopted as it is
  Consumed since_;          // the base, or the push that is open
  Consumed pushed_;         // in the push that is open
  std::uint64_t number_ = 0;
  PushState state_ = PushState::kNone;
  std::string reason_;
  bool goes_on_ = false;  // nobody knows how long it takes
  TimePoint now_{};
  TimePoint heard_{};
  Decision decision_ = Decision::kTaken;

  std::uint64_t staged_ = 0;  // the version that comes
  std::uint64_t staged_maker_ = 0;
  std::uint64_t staged_tokens_ = 0;
  std::uint64_t staged_elements_ = 0;  // that are here
  bool is_adopting_ = false;
  std::uint64_t committed_ = 0;  // the newest that is known to count

  std::vector<std::uint64_t> leased_;
  std::set<std::uint64_t> chunks_;
  bool awaits_lease_ = false;
  bool is_finished_ = false;
};

}  // namespace square::ps
