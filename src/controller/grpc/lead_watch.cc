#include "controller/grpc/lead_watch.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "controller/lead.h"

namespace square::controller {
namespace {

// The same trouble this many times in a row is logged.
constexpr int kTimesOfTrouble = 2;

// False: it was stopped meanwhile.
bool pause(Duration time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  woken.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

std::unique_ptr<LeadWatch> LeadWatch::stand_by(std::string place, Events events) {
  std::unique_ptr<LeadWatch> made(new LeadWatch(std::move(events)));
  made->thread_ = std::jthread([self = made.get(), place = std::move(place)](const std::stop_token& stop) {
    if (const Held hold = self->wait(place, stop)) self->look(hold, true, stop);
  });
  return made;
}

std::unique_ptr<LeadWatch> LeadWatch::watch(Held hold, Events events) {
  std::unique_ptr<LeadWatch> made(new LeadWatch(std::move(events)));
  made->thread_ = std::jthread([self = made.get(), hold = std::move(hold)](const std::stop_token& stop) {
    self->look(hold, false, stop);
  });
  return made;
}

LeadWatch::Held LeadWatch::wait(const std::string& place, const std::stop_token& stop) const {
  Status trouble;
  int times = 0;
  for (;;) {
    auto store = store::open_store(place, stop);
    if (stop.stop_requested()) return nullptr;
    Status why = store.status();
    if (store.is_ok()) {
      const Held hold = (*store)->hold();
      why = events_.take(*std::move(store));
      if (why.is_ok()) return hold;
    }
    // Another one leads: there is nothing else to wait for.
    if (why.code() == StatusCode::kAlreadyExists) continue;
    times = std::exchange(trouble, why) == why ? times + 1 : 1;
    // Once may be the moment in which the leader writes: the file is locked then.
    if (times == kTimesOfTrouble) {
      log(LogLevel::kError, "controller", "stands by, and could not lead now: {}", why.message());
    }
    if (!pause(kLeadRetry, stop)) return nullptr;
  }
}

void LeadWatch::look(const Held& hold, bool ends_late, const std::stop_token& stop) const {
  while (pause(kLeadLook, stop)) {
    if (const auto why = end_of_lead(hold->load(), ends_late)) return events_.lost(*why);
  }
}

}  // namespace square::controller
