#include "node/links/flush.h"

#include <algorithm>
#include <utility>

namespace square {

void Flush::mark(Link& link) {
  if (std::exchange(link.is_due_, true)) return;
  due_.push_back(&link);
  post();
}

void Flush::mark_room(const StreamKey& key) {
  rooms_.push_back(key);
  post();
}

void Flush::forget(const Link& link) { std::erase(due_, &link); }

void Flush::post() {
  if (std::exchange(is_posted_, true)) return;
  executor_.post(life_.bind([this] { run(); }));
}

void Flush::run() {
  while (!due_.empty() || !rooms_.empty()) {
    // Sources first: a stream that ran dry must not look idle to the schedule of a link.
    fill_rooms();
    if (due_.empty()) continue;
    Link& link = *due_.front();
    due_.pop_front();
    link.is_due_ = false;
    link.send_due();
  }
  is_posted_ = false;
}

void Flush::fill_rooms() {
  std::vector<StreamKey> rooms = std::exchange(rooms_, {});
  std::ranges::sort(rooms);
  const auto repeated = std::ranges::unique(rooms);
  rooms.erase(repeated.begin(), repeated.end());
  for (const StreamKey& key : rooms) fill_(key);
}

}  // namespace square
