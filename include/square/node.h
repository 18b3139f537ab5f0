// The process's node: a DataPlane over gRPC and threads, joined to a controller. C++ and Python call it Node.
#pragma once

#include <memory>
#include <string>

#include "square/data_plane.h"
#include "square/identity.h"
#include "square/member_host.h"
#include "square/status.h"

namespace square {

class Controller;

struct NodeOptions {
  std::string name;
  std::string controller_address;  // several of one store with commas, 16 at most
  // Where this node listens, and what others dial (empty: the same).
  std::string bind_address = "127.0.0.1:0";
  std::string advertised_address;
  // Who this process is to others: the certificate of the node `name`. Required unless it listens on the
  // loopback alone, or `insecure`. With one, it believes its controller and its peers by theirs.
  std::shared_ptr<Identity> identity;
  bool insecure = false;
  // With an identity that an authority has signed blocks are sealed from their sources to their destinations:
  // nodes in between pass on what they cannot read, and a changed block is noticed. All nodes of a group
  // alike.
  bool sealed = true;
  std::size_t window_bytes = DataPlaneOptions{}.window_bytes;
  bool paced = true;
  // A controller in this process, one that stands by or the first itself, which must live longer than the
  // node; and its place: should the controller be gone, the lowest follows that lives.
  Controller* successor = nullptr;
  std::uint32_t standing = 0;
};

// Thread-safe. stop() and the destructor block for about DataPlane::kDrainTime at most, or as long as a
// callback that runs. The destructor must not run in a callback of the node. A Gateway over it is stopped
// before, and destroyed after stop().
class Node final : public MemberHost {
 public:
  // Listens, joins, and begins to relay. Errors: those of make_grpc_transport(),
  // Transport::start() and ControllerClient::connect(). Blocks.
  static Result<std::unique_ptr<Node>> join(NodeOptions options);
  // A node that is the whole overlay: it needs no controller and no address, and its members are those of
  // this process and of the processes that it serves. Errors: INVALID_ARGUMENT for the name.
  static Result<std::unique_ptr<Node>> alone(std::string name);
  ~Node() override;

  [[nodiscard]] const std::string& name() const override;
  [[nodiscard]] std::string address() const;
  // The address of the controller that it follows now; empty for a node alone.
  [[nodiscard]] std::string controller() const;
  [[nodiscard]] DataPlane& data_plane();
  Result<GroupPart> join_group(const GroupSpec& group, Rank member, Duration timeout) override;
  Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout) override;
  Result<GroupSpec> regroup(const RegroupRequest& request, Duration timeout) override;
  [[nodiscard]] bool was_stopped_since(TimePoint when) const override;
  void set_members(CollectiveId collective, std::string group, std::vector<Rank> ranks) override;
  void post(MemberOperation operation) override;
  void cancel(CollectiveId collective, OperationId operation) override;
  void fail(CollectiveId collective, OperationId operation, Status cause) override;
  void after(Duration delay, std::function<void()> then) override;
  void work(std::size_t bytes, const std::function<void()>& task, std::function<void()> then) override;
  // After stop(), `arrived` hears CANCELLED at once, on the caller's thread.
  void watch(CollectiveId collective, OperationId operation, Duration timeout,
             std::function<void(Status)> arrived) override;
  void describe(CollectiveId collective, OperationId operation,
                std::function<void(std::string waits_for)> receive) override;

  // Blocks for a moment. All zero after stop().
  [[nodiscard]] NodeStatistics statistics();
  // The same by link, session and tenant. Blocks for a moment. The name alone after stop().
  [[nodiscard]] NodeMetrics metrics();

  // Fails what runs and leaves the overlay. Idempotent: beside another stop() it waits for that one. In a
  // callback of the node (`done`, `arrived` and the like), which the end of the node waits for, it only
  // begins: what runs fails, what comes is refused, and it returns at once. Stop it again elsewhere.
  void stop();

 private:
  struct Parts;
  explicit Node(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace square
