#include "node/context.h"

#include <utility>

#include "base/log.h"

namespace square {
namespace {

constexpr Duration kForgedSayingInterval = std::chrono::seconds(1);

}  // namespace

void NodeContext::refuse_forged(std::string_view from, const std::string& source, const std::string& what) {
  refuse_frame();
  ++statistics.blocks_forged;
  ++forged_unsaid;
  if (statistics.blocks_forged > 1 && clock.now() < forged_said_at + kForgedSayingInterval) return;
  forged_said_at = clock.now();
  log(LogLevel::kError, {.component = "node", .node = options.name, .peer = from},
      "{}: {}: what node \"{}\" passed on is not what node \"{}\" has sealed: it, or a node before it, has "
      "changed it ({} such blocks since this was said last); the source is asked for it again",
      options.name, what, from, source, std::exchange(forged_unsaid, 0));
}

}  // namespace square
