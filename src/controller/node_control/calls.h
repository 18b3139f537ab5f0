// Questions that a node asks whichever controller has welcomed it, again where that is lost.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "controller/node_control/line.h"
#include "controller/node_control/wire.h"
#include "square/executor.h"

namespace square::controller {

// The wait before a question that the controller did not live to answer is asked again.
inline constexpr Duration kRetryPause = std::chrono::milliseconds(50);

// A member here that waits for the answer.
template <typename Answer>
struct Asker {
  TimePoint begun;
  TimePoint end;
  std::function<void(Result<Answer>)> done;  // called once
  std::vector<Executor::TimerId> timers{};

  void tell(Executor& executor, Result<Answer> result) const {
    for (const Executor::TimerId timer : timers) executor.cancel(timer);
    done(std::move(result));
  }
};

// The call that is under way for a question, if one is.
struct Call {
  ControlWire::Number number = 0;  // 0: none
  std::uint64_t losses = 0;        // of the line, when it was made
  bool rests = false;
};

// Of the node's strand. All that it is made of must live longer.
struct Calls {
  ControlWire& wire;
  const Clock& clock;
  Executor& executor;
  ControlLine& line;
  ControlWire::Number last = 0;

  // `look` is called when the asker's time is over, and when it has waited for a controller long enough.
  template <typename Answer>
  void watch(Asker<Answer>& asker, const Executor::Task& look) const {
    for (const TimePoint when : {asker.end, std::min(asker.end, asker.begun + kLongestAbsence)})
      asker.timers.push_back(executor.post_at(when, look));
  }
  template <typename Answer>
  [[nodiscard]] bool is_late(const Asker<Answer>& asker) const {
    return asker.end <= clock.now() || line.is_given_up(asker.begun);
  }

  [[nodiscard]] ControlWire::Number number() { return ++last; }
  // `one` has the call, and is kept until its answer comes or it is cancelled. Precondition: is_welcome().
  template <typename Response, typename One, typename Request>
  void begin(const std::shared_ptr<One>& one, const Request& question, TimePoint end,
             std::function<void(const Result<Response>&)> answered) {
    one->call.number = number();
    one->call.losses = line.losses();
    wire.ask(
        line.connection(), one->call.number, question, end,
        [one, number = one->call.number, answered = std::move(answered)](const Result<Response>& response) {
          if (one->call.number != number) return;
          one->call.number = 0;
          answered(response);
        });
  }
  // False where none was under way.
  bool cancel(Call& call) {
    if (call.number == 0) return false;
    wire.cancel(std::exchange(call.number, 0));
    return true;
  }
  template <typename One>
  void rest(const std::shared_ptr<One>& one, Duration pause, Executor::Task then) {
    one->call.rests = true;
    executor.post_at(clock.now() + pause, [one, then = std::move(then)] {
      one->call.rests = false;
      then();
    });
  }
};

}  // namespace square::controller
