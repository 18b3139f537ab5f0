// The wire of a node that is the whole overlay: its controller is in this process.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "controller/coordinator.h"
#include "controller/node_control/wire.h"
#include "square/executor.h"

namespace square::controller {

// The controller decides and plans on the node's strand: a plan of one node has no links, and is soon made.
class LocalControlWire final : public ControlWire {
 public:
  // `strand` must live longer, and run nothing more when the wire goes.
  LocalControlWire(std::string node, Executor& strand) : node_(std::move(node)), strand_(strand) {}

  void dial(Number connection, const std::string& address) override;
  void send(Number connection, const v1::NodeEvent& event) override;
  [[nodiscard]] std::size_t waiting(Number /*connection*/) const override { return 0; }
  void close(Number connection) override;
  void ask(Number connection, Number call, const v1::RegisterGroupRequest& question, TimePoint end,
           Answered<v1::RegisterGroupResponse> answered) override;
  void ask(Number connection, Number call, const v1::RegroupRequest& question, TimePoint end,
           Answered<v1::RegroupResponse> answered) override;
  void ask(Number connection, Number call, const v1::ListKeySharesRequest& question, TimePoint end,
           Answered<v1::ListKeySharesResponse> answered) override;
  void cancel(Number call) override { calls_.erase(call); }

 private:
  class Line;
  std::unique_ptr<Coordinator> make_coordinator();
  void take_step();
  void end(Number connection, const Status& reason);
  template <typename Response>
  Answered<Response> once(Number call, Answered<Response> answered);

  const std::string node_;
  Executor& strand_;
  Executor::TimerId timer_ = 0;  // of the next step
  Number connection_ = 0;        // 0: none
  std::shared_ptr<Line> line_;   // of the connection
  std::set<Number> calls_;
  std::unique_ptr<Coordinator> coordinator_;  // from the first dial() on
};

}  // namespace square::controller
