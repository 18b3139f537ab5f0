// What a part of a node needs when there is no node around it: one place in a plan.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "node/arrival.h"
#include "node/context.h"
#include "node/links/flush.h"
#include "node/operations/operation_host.h"
#include "node/overlay.h"
#include "node/plan/installed_plan.h"
#include "square/simulation.h"

namespace square::test {

// The node with this number in the plan; its links are there, but down: a source has no room, what
// passes waits.
class OperationPlace final : public OperationHost {
 public:
  OperationPlace(std::shared_ptr<const Plan> planned, std::size_t number)
      : executor(simulation.make_executor()),
        transport(simulation.make_transport(node_name(number))),
        node(new NodeContext{{.name = node_name(number)}, simulation.clock(), *transport, *executor}),
        installed(std::make_shared<const InstalledPlan>(planned, node_name(number), kMinWindowBytes)),
        plan(installed->find(planned->collectives.front().id)),
        flush(*executor, [](const StreamKey&) {}) {
    node->hold_limit_bytes = kMinWindowBytes;
    for (const LocalStream& stream : plan->streams()) {
      for (const std::string& child : stream.children) {
        auto& link = outgoing[child];
        if (!link) link = std::make_unique<OutgoingLink>(*node, child, egress, flush);
        link->add_stream(plan, stream);
      }
    }
  }
  ~OperationPlace() override {
    run();
    transport->stop();
  }

  [[nodiscard]] Sealing sealing(CollectiveId, const std::string& source) const override {
    return {group_key, "group", source};
  }
  // Until nothing is left to do at once.
  void run() {
    simulation.run_until([] { return false; }, simulation.clock().now() + std::chrono::milliseconds(50));
  }
  // A frame as the parent with this number sends it.
  [[nodiscard]] Arrival arrival(FrameHeader header, Buffer payload, std::size_t parent = 0) const {
    Arrival arrival;
    arrival.plan = plan;
    arrival.stream = plan->find({header.epoch, header.session, header.stream});
    if (!arrival.stream->parents.empty()) arrival.from = arrival.stream->parents[parent];
    arrival.place = parent;
    arrival.frame = {header, std::move(payload)};
    return arrival;
  }
  // How many blocks wait on the link to this node.
  [[nodiscard]] std::size_t queued_to(std::size_t number, SessionId session) const {
    const auto queues = outgoing.at(node_name(number))->queues();
    const auto found = queues.find(session);
    return found == queues.end() ? 0 : found->second.blocks;
  }

  std::map<std::string, std::unique_ptr<OutgoingLink>>& links() override { return outgoing; }
  std::shared_ptr<const InstalledCollective> collective_of(CollectiveId, Epoch since) override {
    return since == plan->epoch() ? plan : nullptr;
  }
  std::shared_ptr<const InstalledCollective> active(CollectiveId) override { return plan; }
  void answer(const LocalStream&, Frame frame) override { answers.push_back(std::move(frame)); }
  void fill_stream(const StreamKey& key) override { filled.insert(key); }
  [[nodiscard]] std::string lost_links(CollectiveId) const override { return {}; }
  void on_restart(const OperationKey&, SessionId) override { ++restarts; }
  void announce_failure(const OperationKey&, const Status& cause, GroupCall) override {
    failures.push_back(cause);
  }
  void on_finished(const OperationKey&, const Status& outcome) override { outcomes.push_back(outcome); }

  Simulation simulation{1};
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Transport> transport;
  std::shared_ptr<NodeContext> node;
  std::shared_ptr<const InstalledPlan> installed;
  std::shared_ptr<const InstalledCollective> plan;
  Pacer egress{kUnlimited};
  Flush flush;
  std::map<std::string, std::unique_ptr<OutgoingLink>> outgoing;
  trust::GroupKeyPtr group_key;
  // What it said:
  std::vector<Frame> answers;
  std::set<StreamKey> filled;
  std::size_t restarts = 0;
  std::vector<Status> failures;
  std::vector<Status> outcomes;
};

}  // namespace square::test
