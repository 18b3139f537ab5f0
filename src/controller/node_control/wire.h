// What carries the words between a node and its controllers, as the node's side of control sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "square/clock.h"
#include "square/status.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// Connections and calls have numbers that the node gives, each once. What comes is told on the node's strand,
// and never before the method that brought it about has returned. The methods are called there, and do not
// block.
class ControlWire {
 public:
  using Number = std::uint64_t;  // 0 is nobody's
  template <typename Response>
  using Answered = std::function<void(Result<Response>)>;

  struct Events {
    std::function<void(Number, const v1::ControllerEvent&)> heard;
    std::function<void(Number, const Status&)> ended;
  };

  virtual ~ControlWire() = default;
  // Before anything is dialled.
  void tell(Events events) { events_ = std::move(events); }
  // Ends everything, and waits until nothing more is told. Not on the strand. Idempotent.
  virtual void stop() {}

  // Opens a connection. Its events are told to `heard`, and its end once, to `ended`, also where no
  // controller answers.
  virtual void dial(Number connection, const std::string& address) = 0;
  // In order; dropped where the connection has ended.
  virtual void send(Number connection, const v1::NodeEvent& event) = 0;
  // Events that wait to be sent.
  [[nodiscard]] virtual std::size_t waiting(Number connection) const = 0;
  // Nothing more is told of it.
  virtual void close(Number connection) = 0;

  // A question to the controller of that connection, which is welcome there. `answered` is called once,
  // unless the call is cancelled. An answer that comes too late is DEADLINE_EXCEEDED, without a message where
  // the controller has said none.
  virtual void ask(Number connection, Number call, const v1::RegisterGroupRequest& question, TimePoint end,
                   Answered<v1::RegisterGroupResponse> answered) = 0;
  virtual void ask(Number connection, Number call, const v1::RegroupRequest& question, TimePoint end,
                   Answered<v1::RegroupResponse> answered) = 0;
  virtual void ask(Number connection, Number call, const v1::ListKeySharesRequest& question, TimePoint end,
                   Answered<v1::ListKeySharesResponse> answered) = 0;
  virtual void cancel(Number call) = 0;

 protected:
  Events events_;
};

}  // namespace square::controller
