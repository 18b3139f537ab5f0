// Which of several controllers leads: the one that holds their store, and the next where that has ended.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "store/store.h"

namespace square::controller {

class LeadWatch {
 public:
  // Called from the watch's thread.
  struct Events {
    // The store is this process's: lead. Where it fails the store is let go, and waited for again.
    std::function<Status(std::unique_ptr<store::Store>)> take{};
    // The lead is over, for this reason; the last event.
    std::function<void(const std::string& why)> lost{};
  };

  using Held = std::shared_ptr<const std::atomic<store::Hold>>;

  // Waits for the store in `place`, then watches it.
  static std::unique_ptr<LeadWatch> stand_by(std::string place, Events events);
  // Watches a store that this process has. It is given up when another has taken it, and not where it is
  // late: nobody is known to stand by.
  static std::unique_ptr<LeadWatch> watch(Held hold, Events events);

 private:
  explicit LeadWatch(Events events) : events_(std::move(events)) {}
  [[nodiscard]] Held wait(const std::string& place, const std::stop_token& stop) const;
  void look(const Held& hold, bool ends_late, const std::stop_token& stop) const;

  const Events events_;
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace square::controller
