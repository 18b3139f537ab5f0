// The wire of a node's side of control, over the simulation's network instead of gRPC: connections that take
// a handshake, are looked after by pings, and end as the network says.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/node_control/wire.h"
#include "world/controller_process.h"

namespace square::test {

class SimulatedControlWire final : public controller::ControlWire {
 public:
  // What it refers to must live longer; `executor` is the node's. The node was given several addresses, or
  // brings a successor.
  SimulatedControlWire(ControlNetwork& network, const Controllers& controllers, const Clock& clock,
                       Executor& executor, std::string node, bool has_several, bool has_successor)
      : network_(network),
        controllers_(controllers),
        clock_(clock),
        executor_(executor),
        node_(std::move(node)),
        has_several_(has_several),
        has_successor_(has_successor) {}

  void dial(Number connection, const std::string& address) override;
  void send(Number connection, const v1::NodeEvent& event) override;
  [[nodiscard]] std::size_t waiting(Number connection) const override;
  void close(Number connection) override;
  void ask(Number connection, Number call, const v1::RegisterGroupRequest& question, TimePoint end,
           Answered<v1::RegisterGroupResponse> answered) override;
  void ask(Number connection, Number call, const v1::RegroupRequest& question, TimePoint end,
           Answered<v1::RegroupResponse> answered) override;
  void ask(Number connection, Number call, const v1::ListKeySharesRequest& question, TimePoint end,
           Answered<v1::ListKeySharesResponse> answered) override;
  void cancel(Number call) override { calls_.erase(call); }

  // The connections to that controller, or all, break, and the node sees it.
  void break_connections(const std::optional<std::string>& controller);
  // Its process ends, and its host says so.
  void reset();

 private:
  struct Connection {
    std::uint64_t channel = 0;  // of the network
    ControllerProcess* controller = nullptr;
    bool is_up = false;
    std::vector<v1::NodeEvent> waiting{};  // for it to be up
    std::uint64_t pings = 0;
    std::uint64_t pongs = 0;
  };

  [[nodiscard]] Connection* find(Number connection);
  void up(Number connection);
  void carry(const Connection& connection, const v1::NodeEvent& event);
  void ping(Number connection);
  void end(Number connection, const Status& reason);
  void tell_of_end(const Connection& connection);
  void later(Duration wait, Executor::Task task);
  template <typename Request, typename Response>
  void ask_controller(Number connection, Number call, const Request& question, Answered<Response> answered);

  ControlNetwork& network_;
  const Controllers& controllers_;
  const Clock& clock_;
  Executor& executor_;
  const std::string node_;
  const bool has_several_;
  const bool has_successor_;
  // Another process may have the name when something arrives.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::map<Number, Connection> connections_;
  std::set<Number> calls_;
};

}  // namespace square::test
