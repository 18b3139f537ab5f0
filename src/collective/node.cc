#include "square/node.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/own_process.h"
#include "base/told_once.h"
#include "collective/controlled_data_plane.h"
#include "collective/examination/examiner.h"
#include "collective/local_groups.h"
#include "collective/no_transport.h"
#include "collective/pause_watch.h"
#include "square/controller.h"
#include "square/controller_client.h"
#include "square/grpc_transport.h"
#include "square/metrics.h"
#include "square/thread_executor.h"
#include "trust/group_keys.h"

namespace square {
namespace {

std::uint32_t draw_incarnation() {
  std::random_device random;
  return std::uniform_int_distribution<std::uint32_t>(1)(random);
}

}  // namespace

// What stop() stops stays there until the node itself goes: whoever calls the node meanwhile, from whatever
// thread, finds it, and is refused there. The last goes first, for its threads call those before.
struct Node::Parts {
  // The node's side of control: the data plane, and what the process adds to it.
  class Controlled final : public ControlledDataPlane {
   public:
    // `examiner`: null where nobody can examine the node.
    Controlled(DataPlane& node, Transport& transport, examination::Examiner* examiner)
        : ControlledDataPlane(node), transport_(transport), examiner_(examiner) {}
    void recheck_peers() override { transport_.recheck_peers(); }
    void examine(const ExamineQuestion& question, const std::function<void(std::string)>& answer) override {
      if (examiner_ != nullptr) examiner_->examine(question, answer);
    }

   private:
    Transport& transport_;
    examination::Examiner* const examiner_;
  };

  Result<GroupRegistration> enrol(const GroupSpec& group, Duration timeout);

  // In a forked child the node is as one that has stopped.
  [[nodiscard]] Status check_usable() const {
    const std::string what = "node \"" + node->name() + "\"";
    SQUARE_RETURN_IF_ERROR(process.check(what));
    return is_stopped ? cancelled(what + " was stopped") : Status::ok();
  }

  const OwnProcess process;
  ThreadExecutor executor;
  const std::shared_ptr<PauseWatch> pauses = PauseWatch::start(steady_clock(), executor);
  std::unique_ptr<Transport> transport;
  std::unique_ptr<DataPlane> node;
  std::unique_ptr<examination::Examiner> examiner;  // of a node that others may examine
  std::unique_ptr<Controlled> controlled;
  std::unique_ptr<ControllerClient> controller;
  // Memberships refer to it, and may outlive the node.
  std::shared_ptr<LocalGroups> groups;
  std::atomic<bool> is_stopped = false;  // or about to be
  // A second stop() waits for the first, unless it is called by what the first drops.
  std::recursive_mutex stop_mutex;
  bool has_ended = false;
};

Result<GroupRegistration> Node::Parts::enrol(const GroupSpec& group, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(GroupRegistration made, controller->register_group(group, timeout));
  if (made.key) node->set_group_key(group_label(group.name, made.number), made.key);
  return made;
}

Node::Node(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {
  parts_->groups = std::make_shared<LocalGroups>(
      parts_->node->name(),
      [parts = parts_.get()](const std::string& group, std::uint64_t number) {
        parts->node->close_group(group_label(group, number));
        if (parts->controller) parts->controller->close_group(group, number);
      },
      [parts = parts_.get()](const std::string& group, std::uint64_t number, Rank rank) {
        parts->node->leave_group(group_label(group, number), rank);
      });
}
Node::~Node() {
  stop();
  // Its threads cannot be waited for.
  if (parts_->process.is_forked()) static_cast<void>(parts_.release());
}

Result<std::unique_ptr<Node>> Node::join(NodeOptions options) {
  auto parts = std::make_unique<Parts>();
  GrpcTransportOptions wire;
  wire.node_name = options.name;
  wire.bind_address = options.bind_address;
  wire.advertised_address = options.advertised_address;
  wire.identity = options.identity;
  wire.insecure = options.insecure;
  wire.executor = &parts->executor;
  SQUARE_ASSIGN_OR_RETURN(parts->transport, make_grpc_transport(wire));
  DataPlaneOptions local{options.name, options.window_bytes, draw_incarnation(), options.paced};
  parts->node = std::make_unique<DataPlane>(local, steady_clock(), *parts->transport, parts->executor);
  SQUARE_RETURN_IF_ERROR(parts->node->start());
  // From here on stop() ends what was begun, also when joining fails.
  std::unique_ptr<Node> joined(new Node(std::move(parts)));
  // By fingerprints all nodes are of one job, and there is nobody to seal for.
  const bool is_sealed = options.sealed && options.identity && options.identity->name();
  joined->parts_->examiner =
      std::make_unique<examination::Examiner>(rpc::Self{options.name, options.identity}, is_sealed,
                                              [node = joined.get()] { return node->metrics(); });
  joined->parts_->controlled = std::make_unique<Parts::Controlled>(
      joined->data_plane(), *joined->parts_->transport, joined->parts_->examiner.get());
  ControllerClientOptions line;
  if (is_sealed) {
    SQUARE_ASSIGN_OR_RETURN(line.group_keys, trust::GroupKeys::create(options.identity));
  }
  line.controller_address = options.controller_address;
  line.identity = options.identity;
  line.node_name = options.name;
  line.node_address = joined->address();
  if (Controller* const own = options.successor) {
    line.successor =
        SuccessorOptions{own->address(), options.standing, [own] { return own->waiting(); },
                         [own](const std::vector<LostController>& lost) { return own->wake(lost); }};
  }
  SQUARE_ASSIGN_OR_RETURN(joined->parts_->controller,
                          ControllerClient::connect(line, *joined->parts_->controlled));
  joined->data_plane().report_sights(
      [controller = joined->parts_->controller.get()](const std::vector<BlockSight>& sights) {
        controller->report_sights(sights);
      });
  joined->data_plane().report_broken_links(
      [controller = joined->parts_->controller.get()](LinkTroubles troubles) {
        controller->report_broken_links(std::move(troubles));
      },
      [controlled = joined->parts_->controlled.get()] { return controlled->has_controller(); });
  return joined;
}

Result<std::unique_ptr<Node>> Node::alone(std::string name) {
  auto parts = std::make_unique<Parts>();
  parts->transport = std::make_unique<NoTransport>();
  DataPlaneOptions local;
  local.name = name;
  local.incarnation = draw_incarnation();
  parts->node = std::make_unique<DataPlane>(local, steady_clock(), *parts->transport, parts->executor);
  SQUARE_RETURN_IF_ERROR(parts->node->start());
  std::unique_ptr<Node> made(new Node(std::move(parts)));
  made->parts_->controlled =
      std::make_unique<Parts::Controlled>(made->data_plane(), *made->parts_->transport, nullptr);
  SQUARE_ASSIGN_OR_RETURN(made->parts_->controller, ControllerClient::alone(name, *made->parts_->controlled));
  return made;
}

const std::string& Node::name() const { return parts_->node->name(); }
std::string Node::address() const { return parts_->transport->address(); }
std::string Node::controller() const { return parts_->controlled->controller(); }
DataPlane& Node::data_plane() { return *parts_->node; }

Result<GroupPart> Node::join_group(const GroupSpec& group, Rank member, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(parts_->check_usable());
  return parts_->groups->join(group, member, timeout,
                              [&](Duration left) { return parts_->enrol(group, left); });
}

Result<GroupRegistration> Node::register_group(const GroupSpec& group, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(parts_->check_usable());
  return parts_->enrol(group, timeout);
}

Result<GroupSpec> Node::regroup(const RegroupRequest& request, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(parts_->check_usable());
  const LocalGroups::Asks asks = [&](const RegroupRequest& own, Duration left) {
    return parts_->controller->regroup(own, left);
  };
  return request.joiner == 0 ? parts_->groups->regroup(request, timeout, asks) : asks(request, timeout);
}

bool Node::was_stopped_since(TimePoint when) const { return parts_->pauses->was_stopped_since(when); }

void Node::set_members(CollectiveId collective, std::string group, std::vector<Rank> ranks) {
  parts_->node->set_members(collective, std::move(group), std::move(ranks));
}

void Node::post(MemberOperation operation) {
  if (parts_->process.is_forked()) {
    if (operation.done) operation.done(parts_->check_usable());
    return;
  }
  parts_->controlled->note_use(operation.collective,
                               std::max(operation.input.size(), operation.output.size()));
  parts_->node->post(std::move(operation));
}

void Node::cancel(CollectiveId collective, OperationId operation) {
  parts_->node->cancel(collective, operation);
}

void Node::fail(CollectiveId collective, OperationId operation, Status cause) {
  parts_->node->fail(collective, operation, std::move(cause));
}

void Node::after(Duration delay, std::function<void()> then) { parts_->node->after(delay, std::move(then)); }

void Node::work(std::size_t bytes, const std::function<void()>& task, std::function<void()> then) {
  parts_->executor.work(bytes, [executor = &parts_->executor, task, then = std::move(then)] {
    task();
    executor->post(then);
  });
}

void Node::watch(CollectiveId collective, OperationId operation, Duration timeout,
                 std::function<void(Status)> arrived) {
  if (parts_->process.is_forked()) return arrived(parts_->check_usable());
  // A node that has stopped drops what it is to do.
  Status stopped = cancelled("node \"" + name() + "\" was stopped");
  parts_->node->watch(collective, operation, timeout, told_once(std::move(arrived), std::move(stopped)));
}

void Node::describe(CollectiveId collective, OperationId operation,
                    std::function<void(std::string waits_for)> receive) {
  parts_->node->describe(collective, operation, std::move(receive));
}

NodeStatistics Node::statistics() {
  if (!parts_->check_usable().is_ok()) return {};
  const auto answer = std::make_shared<std::promise<NodeStatistics>>();
  auto statistics = answer->get_future();
  parts_->node->statistics([answer](NodeStatistics now) { answer->set_value(now); });
  return statistics.wait_for(DataPlane::kDrainTime) == std::future_status::ready ? statistics.get()
                                                                                 : NodeStatistics{};
}

NodeMetrics Node::metrics() {
  NodeMetrics none;
  none.node = name();
  if (!parts_->check_usable().is_ok()) return none;
  const auto answer = std::make_shared<std::promise<NodeMetrics>>();
  auto metrics = answer->get_future();
  parts_->node->metrics([answer](NodeMetrics now) { answer->set_value(std::move(now)); });
  return metrics.wait_for(DataPlane::kDrainTime) == std::future_status::ready ? metrics.get() : none;
}

void Node::stop() {
  if (parts_->process.is_forked()) return;
  parts_->is_stopped = true;
  parts_->groups->stop();
  // Its threads can not wait for their own end.
  if (parts_->executor.is_own_thread()) return parts_->node->stop([] {});
  const std::lock_guard lock(parts_->stop_mutex);
  if (std::exchange(parts_->has_ended, true)) return;
  const auto drained = std::make_shared<std::promise<FinishedOperations>>();
  auto finished = drained->get_future();
  parts_->node->stop([drained, node = parts_->node.get()] {
    node->finished([drained](FinishedOperations all) { drained->set_value(std::move(all)); });
  });
  const bool is_drained = finished.wait_for(2 * DataPlane::kDrainTime) == std::future_status::ready;
  if (parts_->controller) parts_->controller->stop(is_drained ? finished.get() : FinishedOperations());
  if (parts_->examiner) parts_->examiner->stop();
  parts_->transport->stop();
  parts_->executor.stop();
}

}  // namespace square
