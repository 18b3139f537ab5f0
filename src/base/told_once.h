// Callbacks that whoever waits can count on, also where what would call them is dropped.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "square/status.h"

namespace square {

// `tell`, which is called with `dropped` once no copy of what this gives is left and none was called;
// that is on the thread that drops the last one, and so it must not block. Call one copy, once.
inline std::function<void(Status)> told_once(std::function<void(Status)> tell, Status dropped) {
  struct Listener {
    std::function<void(Status)> tell;
    Status dropped;
    Listener(std::function<void(Status)> whom, Status what)
        : tell(std::move(whom)), dropped(std::move(what)) {}
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    ~Listener() {
      if (tell) tell(dropped);
    }
  };
  return [listener = std::make_shared<Listener>(std::move(tell), std::move(dropped))](Status outcome) {
    std::exchange(listener->tell, nullptr)(std::move(outcome));
  };
}

}  // namespace square
