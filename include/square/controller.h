// The control plane: knows topology and groups, plans, publishes. Never on the path of
// data. Runs in any process; `square controller` is one that does nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "square/group.h"
#include "square/identity.h"
#include "square/lost_controller.h"
#include "square/plan.h"
#include "square/scenario.h"
#include "square/status.h"

namespace square {

struct ControllerOptions {
  // Any address but a loopback one needs an identity, or `insecure`.
  std::string bind_address = "127.0.0.1:0";
  std::string advertised_address;  // empty: the bound one
  // That of a controller. With one, calls and lines are mutual TLS, and a node is who its certificate names.
  std::shared_ptr<Identity> identity;
  bool insecure = false;
  // What keeps all that must outlive the controller: groups, numbers, the nodes. A file, which is made where
  // it is not there; or a PostgreSQL database, "postgresql://user@host/database". Empty: nothing is kept, and
  // nodes tell a controller that is started again what they run.
  std::string store;
  // A node that is not heard of for this long has left.
  Duration lease = std::chrono::seconds(10);
  // How long a change of plan waits for nodes to install it before it gives up on them.
  Duration install_timeout = std::chrono::seconds(10);
};

struct NodeInformation {
  std::string name;
  std::string address;
  bool connected = false;
  Epoch installed;
  std::string key_share{};  // of a controller: what others wrap keys of groups with for the node
  // The control protocol that the node and the controller speak; 0: it is not connected.
  std::uint32_t protocol_version = 0;
};

// Thread-safe. Calls that say so block for at most the time they name.
class Controller {
 public:
  // Listens, and plans for the scenario's topology, policy and tenants. The scenario's
  // collectives are registered as groups named "collective/0" and so on, rank i on the
  // i-th member. Without nodes in the topology, nodes that join are added as they come,
  // fully meshed by unlimited links. Errors: UNAVAILABLE with the address where it
  // cannot listen; those of make_plan(); of the store ALREADY_EXISTS while another controller has it, which
  // takes up to 3 s to find out, FAILED_PRECONDITION for another version or topology, INVALID_ARGUMENT for a
  // file that is none, DATA_LOSS for a damaged one, UNAVAILABLE or RESOURCE_EXHAUSTED.
  static Result<std::unique_ptr<Controller>> start(ControllerOptions options, Scenario scenario);
  // Listens, and stands by: it answers UNAVAILABLE until it leads. With a store that is once it gets hold of
  // it: of several controllers of one store one leads, and where that ends, or does not renew its lease for
  // 3 s, another takes up what it kept. Without one a node that brings it (NodeOptions::successor) wakes it
  // because those before it are gone; what it plans then is what nodes tell it that they run, over the
  // scenario. Errors: those of start(), but for the store's, which are logged.
  static Result<std::unique_ptr<Controller>> stand_by(ControllerOptions options, Scenario scenario);
  ~Controller();

  // Starts to plan; these nodes are taken for gone, unless they are heard of soon. Idempotent. Errors: those
  // of start(); UNAVAILABLE after stop(). Blocks for a moment.
  Status wake(const std::vector<LostController>& lost = {});
  [[nodiscard]] bool stands_by() const;
  // Another controller has its store, or may have: nodes are told nothing more, and calls fail. For good.
  [[nodiscard]] bool has_stepped_down() const;
  // How many nodes have called lately while it stood by.
  [[nodiscard]] std::size_t waiting() const;

  [[nodiscard]] std::string address() const;

  // Plans again under another policy and waits until the plan is active on every
  // connected node. Errors: those of make_plan(), the old plan staying in force;
  // DEADLINE_EXCEEDED naming nodes that did not install it. Blocks.
  Result<Epoch> set_policy(PolicySpec policy);

  // Replaces the topology's link capacities and limits or adds nodes; as set_policy().
  Result<Epoch> set_topology(Topology topology);

  // What ControllerClient::register_group() does. Blocks.
  Result<GroupRegistration> register_group(const GroupSpec& group);

  // The newest active plan; null before the first.
  [[nodiscard]] std::shared_ptr<const Plan> plan() const;

  [[nodiscard]] std::vector<NodeInformation> nodes() const;
  // Waits until these nodes are connected and have installed the active plan. Errors:
  // DEADLINE_EXCEEDED naming the missing ones.
  Status wait_for_nodes(const std::vector<std::string>& names, Duration timeout) const;

  // Ends all connections and joins all threads. Idempotent.
  void stop();

 private:
  class Core;
  explicit Controller(std::unique_ptr<Core> core);
  static Result<std::unique_ptr<Controller>> serve(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace square
