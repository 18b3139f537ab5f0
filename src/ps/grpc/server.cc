// A server as a process runs it.
#include "ps/server/server.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "ps/grpc/member.h"
#include "ps/shard/shard.h"
#include "square/parameter_server.h"

namespace square::ps {
namespace {

// What may pass: a name that is still taken for a lease, a master that is full.
bool is_final(const Status& status) {
  return status.code() != StatusCode::kAlreadyExists && status.code() != StatusCode::kResourceExhausted &&
         status.code() != StatusCode::kUnavailable;
}

}  // namespace

class Server::Core {
 public:
  static Result<std::unique_ptr<Core>> make(const ServerOptions& options) {
    if (options.kept < 2) return invalid_argument("a server keeps at least 2 snapshots: kept is too small");
    auto core = std::make_unique<Core>();
    SQUARE_ASSIGN_OR_RETURN(core->member_, Member::join(options.member));
    SQUARE_ASSIGN_OR_RETURN(core->shard_,
                            Shard::open(options.member.name, options.snapshots, options.kept,
                                        core->member_->lines(), core->member_->strand(), options.threads));
    core->begin(options);
    return core;
  }
  ~Core() { stop(); }

  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] bool serves() const { return serves_; }
  [[nodiscard]] Status failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  bool wait_for_end(Duration timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return is_stopped_ || !failure_.is_ok(); });
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(is_stopped_, true)) return;
      changed_.notify_all();
    }
    if (!state_) return;
    member_->run([this] { leave(); });
    member_->stop();
    shard_->stop();
    // Nothing runs any more; another server may have the folder.
    state_.reset();
    shard_.reset();
  }

 private:
  void begin(const ServerOptions& options) {
    state_.emplace(
        ServerIdentity{options.member.name, options.member.name, member_->incarnation(),
                       options.capacity_bps},
        *shard_, [this](v1::PsReport report) { member_->send(std::move(report)); },
        [this](const Status& status) { fail(status); });
    member_->attach({[this] { state_->on_attached(); },
                     [this](const v1::PsOrder& order) {
                       state_->on_order(order);
                       look();
                     },
                     [this] {
                       state_->on_detached();
                       look();
                     },
                     [this] { look(); }});
  }

  void look() {
    version_ = state_->version();
    serves_ = state_->serves();
  }

  // Others need not wait for it.
  void leave() {
    v1::PsReport report;
    report.set_leave(true);
    member_->send(std::move(report));
  }

  void fail(const Status& status) {
    log(LogLevel::kWarning, "ps", "server: {}", status.message());
    if (!is_final(status)) return;
    leave();
    const std::lock_guard lock(mutex_);
    if (failure_.is_ok()) failure_ = status;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Status failure_;
  bool is_stopped_ = false;
  std::atomic<std::uint64_t> version_ = 0;
  std::atomic<bool> serves_ = false;
  std::unique_ptr<Member> member_;
  std::unique_ptr<Shard> shard_;
  std::optional<ServerState> state_;  // of the strand
};

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  SQUARE_ASSIGN_OR_RETURN(auto core, Core::make(options));
  return std::unique_ptr<Server>(new Server(std::move(core)));
}

Server::Server(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Server::~Server() = default;
std::uint64_t Server::version() const { return core_->version(); }
bool Server::serves() const { return core_->serves(); }
Status Server::failure() const { return core_->failure(); }
bool Server::wait_for_end(Duration timeout) { return core_->wait_for_end(timeout); }
void Server::stop() { core_->stop(); }

}  // namespace square::ps
