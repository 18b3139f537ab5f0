// Python's Node: the process's node, and the gateway over it if it serves other processes.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "square/gateway.h"
#include "square/node.h"

namespace square::python {

// Stops the gateway before the node, however it is stopped. Thread-safe.
class ServingNode final : public MemberHost {
 public:
  explicit ServingNode(std::unique_ptr<Node> node) : node_(std::move(node)) {}
  ~ServingNode() override { stop(); }

  [[nodiscard]] Node& node() { return *node_; }

  // Returns the address. Errors: those of Gateway::serve(); FAILED_PRECONDITION if it serves already;
  // CANCELLED after stop().
  Result<std::string> serve_gateway(GatewayOptions options);
  // All zero before serve_gateway() and after stop().
  [[nodiscard]] Gateway::Statistics gateway_statistics() const;
  // Blocks as Gateway::stop() and Node::stop() do. Idempotent: beside another stop() it waits for that one.
  void stop();

  [[nodiscard]] const std::string& name() const override { return node_->name(); }
  Result<GroupPart> join_group(const GroupSpec& group, Rank member, Duration timeout) override {
    return node_->join_group(group, member, timeout);
  }
  Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout) override {
    return node_->register_group(group, timeout);
  }
  [[nodiscard]] bool was_stopped_since(TimePoint when) const override {
    return node_->was_stopped_since(when);
  }
  Result<GroupSpec> regroup(const RegroupRequest& request, Duration timeout) override {
    return node_->regroup(request, timeout);
  }
  void set_members(CollectiveId collective, std::string group, std::vector<Rank> ranks) override {
    node_->set_members(collective, std::move(group), std::move(ranks));
  }
  void post(MemberOperation operation) override { node_->post(std::move(operation)); }
  void cancel(CollectiveId collective, OperationId operation) override {
    node_->cancel(collective, operation);
  }
  void fail(CollectiveId collective, OperationId operation, Status cause) override {
    node_->fail(collective, operation, std::move(cause));
  }
  void after(Duration delay, std::function<void()> then) override { node_->after(delay, std::move(then)); }
  void work(std::size_t bytes, const std::function<void()>& task, std::function<void()> then) override {
    node_->work(bytes, task, std::move(then));
  }
  void watch(CollectiveId collective, OperationId operation, Duration timeout,
             std::function<void(Status)> arrived) override {
    node_->watch(collective, operation, timeout, std::move(arrived));
  }
  void describe(CollectiveId collective, OperationId operation,
                std::function<void(std::string waits_for)> receive) override {
    node_->describe(collective, operation, std::move(receive));
  }

 private:
  const std::unique_ptr<Node> node_;
  mutable std::mutex mutex_;
  std::shared_ptr<Gateway> gateway_;  // of calls under way too; destroyed before the node
  bool is_stopped_ = false;
};

}  // namespace square::python
