// A node that serves other processes of its host, through shared memory where that can be. docs/gateway.md
// has the protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "square/member_host.h"
#include "square/status.h"
#include "square/units.h"

namespace square {

namespace gateway {
class GatewayServer;
class AttachedLine;
}  // namespace gateway

// Whom a gateway serves beside the user that it runs as.
struct GatewayUser {
  std::uint32_t user = 0;  // its number
  std::string tenant;      // that its processes may be; "*": any
};

struct GatewayOptions {
  // A Unix socket. Empty: one of its own, in a directory of the user's.
  std::string socket_path = {};
  // Processes of the user that the gateway runs as, and of root, may be any tenant. Others are named here,
  // several times for several tenants; then `socket_path` is named, too, as a path that they reach.
  std::vector<GatewayUser> users = {};
  // Processes that may be attached at once, and those of one user that is not the gateway's own.
  std::size_t max_attachments = 256;
  std::size_t max_attachments_of_other = 64;
  // Of one attachment: groups, and operations that have not ended. Its process keeps more back.
  std::size_t max_groups = 256;
  std::size_t max_operations = 4'096;
  // Memory for operations under way, input and output counted, shared memory too. An operation
  // waits until there is room; one that is larger is refused with RESOURCE_EXHAUSTED.
  std::uint64_t tenant_staging_bytes = std::uint64_t{1} << 30U;
  std::uint64_t staging_bytes = std::uint64_t{4} << 30U;
  // Whether processes of this host may use shared memory.
  bool shared_memory = true;
  // A process that says nothing for this long is gone: longer than one is stopped for and goes on. A closed
  // connection is seen at once.
  Duration lease = std::chrono::seconds(10);
};

// Thread-safe.
class Gateway {
 public:
  // A process that has not introduced itself by then is sent away.
  static constexpr Duration kHandshakeTime = std::chrono::seconds(1);
  // Registrations with the controller that may run at once; more wait. All ranks of a group share one.
  static constexpr std::size_t kMaxRegistrations = 32;

  // Listens. `host` must outlive the gateway. The order that keeps nobody waiting: stop() here, stop() of the
  // host, the gateway's destructor, the host's. A host that stops first ends what processes run there; they
  // stay attached, and every call of theirs fails, until the gateway stops.
  // Errors: INVALID_ARGUMENT naming the option; ALREADY_EXISTS where somebody serves at the path, UNAVAILABLE
  // or PERMISSION_DENIED where it cannot listen.
  static Result<std::unique_ptr<Gateway>> serve(MemberHost& host, GatewayOptions options);
  // stop(), and waits for the registrations under way, which end when the host stops.
  ~Gateway();

  [[nodiscard]] const std::string& socket_path() const;

  struct Statistics {
    std::size_t attachments = 0;
    std::size_t operations = 0;  // begun and not ended
    std::uint64_t staging_bytes = 0;
  };
  // Blocks for a moment. All zero after stop().
  [[nodiscard]] Statistics statistics() const;

  // Tells every process, cancels what it runs, and waits for DataPlane::kDrainTime at the most.
  // Idempotent.
  void stop();

 private:
  explicit Gateway(std::shared_ptr<gateway::GatewayServer> server);
  std::shared_ptr<gateway::GatewayServer> server_;
};

struct AttachOptions {
  std::string socket_path;
  // Empty: the tenant of the first group. A process is of one tenant.
  std::string tenant = {};
  // Off: data is streamed over the connection.
  bool shared_memory = true;
  Duration timeout = std::chrono::seconds(5);
};

// A node in another process, as this process's members see it. Thread-safe.
class AttachedNode final : public MemberHost {
 public:
  // Connects and says who this is. Blocks for `timeout` at most. Errors: UNAVAILABLE naming the path if no
  // gateway answers; PERMISSION_DENIED for a user, or a tenant of the user's, that the gateway does not
  // serve; FAILED_PRECONDITION for another protocol version; RESOURCE_EXHAUSTED where it serves as many as it
  // may.
  static Result<std::unique_ptr<AttachedNode>> attach(AttachOptions options);
  // leave().
  ~AttachedNode() override;

  // Of the gateway's node.
  [[nodiscard]] const std::string& name() const override;
  // Errors: those of ControllerClient::register_group(); PERMISSION_DENIED for a second tenant.
  Result<GroupPart> join_group(const GroupSpec& group, Rank member, Duration timeout) override;
  Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout) override;
  Result<GroupSpec> regroup(const RegroupRequest& request, Duration timeout) override;
  // Nothing: the gateway knows the members of every group that was registered.
  void set_members(CollectiveId collective, std::string group, std::vector<Rank> ranks) override;
  // See DataPlane::post(). Besides: UNAVAILABLE naming the gateway when it goes away;
  // ALREADY_EXISTS for a rank that another process has; PERMISSION_DENIED for a group that this
  // process has not registered; RESOURCE_EXHAUSTED for an operation over the gateway's staging.
  void post(MemberOperation operation) override;
  void cancel(CollectiveId collective, OperationId operation) override;
  // Nothing for a group that no member of this process is in.
  void fail(CollectiveId collective, OperationId operation, Status cause) override;
  void after(Duration delay, std::function<void()> then) override;
  void work(std::size_t bytes, const std::function<void()>& task, std::function<void()> then) override;
  void watch(CollectiveId collective, OperationId operation, Duration timeout,
             std::function<void(Status)> arrived) override;

  // Ends what runs with CANCELLED; nothing refers to any member's buffer afterwards, and later
  // calls fail. Blocks for about half a second at the most. Idempotent.
  void leave();

  // Whether data goes through shared memory. If not, why.
  [[nodiscard]] bool is_shared() const;
  [[nodiscard]] const std::string& why_streamed() const;

 private:
  explicit AttachedNode(std::shared_ptr<gateway::AttachedLine> line);
  std::shared_ptr<gateway::AttachedLine> line_;
};

}  // namespace square
