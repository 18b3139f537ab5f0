// Parameter servers, after Di-PS: sites that train on their own push how far they got, and servers keep the
// one model that comes of it. docs/parameter-servers.md explains it, and what happens when something dies.
//
//     Master   decides: who takes part, which pushes make the next version, and when it counts. It has no
//              training data, and nothing on a disk: one that begins anew learns from its servers.
//     Server   keeps a shard of the model, does the outer optimizer's step on it, and keeps snapshots.
//     Worker   trains. What it pushes and pulls goes to and from all servers, over the ways that are planned.
//
// A push counts once all servers have it and a version with it is on the disks of all. If a server dies
// before, the round is skipped, and workers carry their work on: nothing that a site did is thrown away.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "square/identity.h"
#include "square/outer_optimizer.h"
#include "square/scenario.h"
#include "square/status.h"
#include "square/training_options.h"
#include "square/units.h"

namespace square::ps {

struct MasterOptions {
  // Any address but a loopback one needs an identity, or `insecure`.
  std::string bind_address = "127.0.0.1:0";
  std::string advertised_address{};  // empty: the bound one
  // That of a controller, which a master has beside itself unless it is told of one; or of a server.
  std::shared_ptr<Identity> identity{};
  bool insecure = false;
  // The controller of the overlay that the data takes. Empty: the master brings one, for this scenario, on
  // the same host and the next port: there its nodes find it again when the master was started again.
  std::string controller_address{};
  Scenario scenario{};
  TrainingOptions training{};
};

struct MemberStatus {
  std::string name;
  bool is_server = false;
  bool is_connected = false;
  // Of workers.
  std::uint64_t base_version = 0;  // 0: none yet
  std::uint64_t pushes = 0;
  std::uint64_t excluded = 0;   // of them: outliers and what is not finite
  std::uint64_t skipped = 0;    // of them: carried on in the next
  std::uint64_t staleness = 0;  // versions that the last push in one was behind
  double push_seconds = 0;      // of the last
  double pull_seconds = 0;
  double wait_seconds = 0;      // from its last push until it trained on with what came of it
  double interval_seconds = 0;  // from one push to the next, smoothed
  double norm = 0;              // of its last push in a version, and what the penalty made of it
  double score = 0;
  // Of servers.
  std::uint64_t first_element = 0;
  std::uint64_t elements = 0;
  double update_seconds = 0;
  double snapshot_seconds = 0;
};

// One push of a round, as it was judged.
struct RoundPush {
  std::string worker;
  std::uint64_t base_version = 0;
  std::uint64_t tokens = 0;
  std::vector<std::uint64_t> chunks;
  Decision decision = Decision::kTaken;
  double norm = 0;
  double score = 0;
  double weight = 0;  // in the average
};

// A version that was made: what of, and what came out. With the snapshots it can be audited.
struct RoundStatus {
  std::uint64_t version = 0;
  double norm = 0;    // of the average, before it was clipped
  double factor = 0;  // that it was multiplied with
  double seconds = 0;
  std::vector<RoundPush> pushes;  // without their chunks; none: other servers got parts of the model
  struct Part {
    std::string server;
    std::uint64_t first_element = 0;
    std::uint64_t elements = 0;
    std::uint64_t hash = 0;  // as in Snapshot
  };
  std::vector<Part> parts;
};

struct MasterStatus {
  std::uint64_t version = 0;  // the newest that counts; 0: none yet
  std::uint64_t tokens = 0;   // in it
  std::uint64_t chunks = 0;
  std::uint64_t chunks_done = 0;
  std::uint64_t chunks_held = 0;
  std::uint64_t rounds_skipped = 0;  // since this master began
  std::string waits_for;             // in words; empty: it trains
  bool moves_shards = false;         // to servers that came later
  std::vector<MemberStatus> members;
  std::vector<RoundStatus> rounds;  // the newest that this master made, at most 64, ascending
};
// Asks a master. Errors: UNAVAILABLE with the address where none answers in time, UNAUTHENTICATED. Blocks.
Result<MasterStatus> ask_master_status(const std::string& address, const std::shared_ptr<Identity>& identity,
                                       Duration timeout);

// Thread-safe.
class Master {
 public:
  // Errors: INVALID_ARGUMENT; UNAVAILABLE where it cannot listen; those of Controller::start(). Blocks for a
  // moment.
  static Result<std::unique_ptr<Master>> start(MasterOptions options);
  ~Master();

  [[nodiscard]] std::string address() const;
  // Of the overlay.
  [[nodiscard]] std::string controller() const;
  // Blocks for a moment.
  [[nodiscard]] MasterStatus status();
  // Its members go on looking for one at this address. Idempotent, blocks for a moment.
  void stop();

 private:
  class Core;
  explicit Master(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

// Where a member lives in the overlay.
struct MemberOptions {
  std::string name;  // of its own
  std::string master_address;
  // Of the node `name`, or of the server: its node, and its line to the master.
  std::shared_ptr<Identity> identity{};
  bool insecure = false;
  // Where its node listens, and what others dial (empty: the same).
  std::string bind_address = "127.0.0.1:0";
  std::string advertised_address{};
  // How long it looks for a master before it gives up.
  Duration connect_timeout = std::chrono::seconds(30);
};

struct ServerOptions {
  MemberOptions member{};
  // A folder of its own, for its snapshots.
  std::string snapshots;
  // Versions that stay there; at least 2.
  std::size_t kept = 3;
  // That calculate; 0: one a processor.
  unsigned threads = 0;
  // Its part of the model is in proportion, where all servers say one; 0: unknown.
  double capacity_bps = 0;
};

// Thread-safe.
class Server {
 public:
  // Serves until it is stopped, or fails. Errors: those of Node::join(); of the folder FAILED_PRECONDITION
  // while another server has it, UNAVAILABLE where it cannot be written. Blocks until it has an overlay.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  ~Server();

  [[nodiscard]] std::uint64_t version() const;
  [[nodiscard]] bool serves() const;
  // Why it serves no more: its snapshots are damaged, or lost, or the master does not want it. OK otherwise.
  [[nodiscard]] Status failure() const;
  // Until it has failed or was stopped, or the time is over: false.
  bool wait_for_end(Duration timeout);
  void stop();

 private:
  class Core;
  explicit Server(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

struct TensorSpec {
  std::string name;
  // What the worker trains with: "float32", "bfloat16", "float16", "float64". Pushes and versions are
  // float32.
  std::string dtype = "float32";
  std::vector<std::uint64_t> shape;
};

// A version of a server's shard, and the round that made it: with all versions' a training can be audited,
// and played again.
struct Snapshot {
  std::uint64_t version = 0;
  std::uint64_t tokens = 0;  // in it
  std::string server;
  std::uint64_t first_element = 0;
  std::vector<TensorSpec> model;  // all of it, in the order of its elements
  std::vector<RoundPush> pushes;
  double norm = 0;    // of the average, before clipping
  double factor = 0;  // of clipping
  std::uint64_t hash = 0;
  std::vector<float> parameters;  // from first_element on
};
// Errors: NOT_FOUND, DATA_LOSS for a damaged file, UNAVAILABLE where it cannot be read; all name the path.
Result<Snapshot> load_snapshot(const std::string& path);

enum class SyncOutcome : std::uint8_t {
  kAdopted,  // a version with the push; the tensors go on from it
  kSkipped,  // nothing was made of the push: its work is in the next one
  kRefused,  // the work since the base can never count: the tensors are the newest version
  kGoesOn,   // it is not known yet: train on, and call again
};

struct SyncReport {
  SyncOutcome outcome = SyncOutcome::kGoesOn;
  std::uint64_t version = 0;  // the base from here on
  // Of the push, where a version was adopted.
  Decision decision = Decision::kTaken;
  std::string reason;
};

struct WorkerOptions {
  MemberOptions member{};
};

// One trainer's calls come from one thread at a time.
class Worker {
 public:
  using Tensors = std::span<const std::span<float>>;
  using ConstTensors = std::span<const std::span<const float>>;

  // Joins, and writes the newest version to `tensors`, one for each of `model`, contiguous; the first worker
  // of all brings what they hold as version 1. Errors: INVALID_ARGUMENT for a model that differs from the
  // one that is trained, with the difference; ALREADY_EXISTS for a name; DEADLINE_EXCEEDED with what is
  // waited for. Blocks for `timeout` at most.
  static Result<std::unique_ptr<Worker>> join(WorkerOptions options, const std::vector<TensorSpec>& model,
                                              Tensors tensors, Duration timeout);
  // Its two halves: who waits in begin() may do so little by little.
  static Result<std::unique_ptr<Worker>> start(WorkerOptions options, const std::vector<TensorSpec>& model,
                                               ConstTensors first);
  Status begin(Tensors tensors, Duration timeout);
  ~Worker();

  // What was trained on since the last call; it belongs to the next push. A push of more than 2^40 tokens is
  // refused, and one counts for at most 16 times the median of its round. Errors, as of all that follows:
  // FAILED_PRECONDITION after leave().
  Status consumed(std::uint64_t tokens, std::vector<std::uint64_t> chunks = {});
  // Pushes, if nothing is open, and something was consumed; waits for what comes of it, as long as all goes
  // well; and adopts it. Where there is trouble, or `timeout` is over, it returns before that: train on and
  // call again. Errors: FAILED_PRECONDITION where nothing was consumed; what the master refuses.
  Result<SyncReport> sync(Tensors tensors, Duration timeout);
  // Its two halves: push() does not wait, and pull() waits for at most so long.
  Status push(ConstTensors tensors);
  // What the tensors hold after a version was adopted, where that is rounded: the next push is how far they
  // got from there, and not the rounding. Only between pull() and the next push().
  Status rebase(ConstTensors tensors);
  Result<SyncReport> pull(Tensors tensors, Duration timeout);
  // What pull() waits for. Whether that is over.
  bool wait(Duration timeout);
  // begin() would write a version now, or fail.
  bool wait_for_first(Duration timeout);
  // Nothing is open, and a master is there. Something was consumed that is not pushed.
  [[nodiscard]] bool can_push() const;
  [[nodiscard]] bool has_work() const;
  // Up to so many chunks to train on; none: all are done. Waits where others hold the last ones. Errors:
  // DEADLINE_EXCEEDED. Chunks are of the lowest numbers that are free.
  Result<std::vector<std::uint64_t>> lease(std::uint32_t chunks, Duration timeout);

  [[nodiscard]] std::uint64_t version() const;
  // In the newest version that it knows of, and consumed here since: for schedules.
  [[nodiscard]] std::uint64_t tokens() const;
  // Others may go on with its chunks. Idempotent.
  void leave();

 private:
  class Core;
  explicit Worker(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace square::ps
