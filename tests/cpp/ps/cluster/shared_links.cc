#include "ps/cluster/shared_links.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace square::test {
namespace {

constexpr double kRest = 1e-6;  // floats that are rounding

}  // namespace

void SharedLinks::begin(std::uint64_t number, const std::string& from, const std::string& to, double floats,
                        std::function<void()> done) {
  advance();
  moves_[number] = {from, to, floats, 0, std::move(done)};
  ++out_[from];
  ++in_[to];
  share();
}

void SharedLinks::end(std::uint64_t number) {
  const auto found = moves_.find(number);
  if (found == moves_.end()) return;
  advance();
  --out_[found->second.from];
  --in_[found->second.to];
  moves_.erase(found);
  share();
}

void SharedLinks::advance() {
  const TimePoint now = simulation_.clock().now();
  const double passed = to_seconds(now - since_);
  since_ = now;
  for (auto& [number, move] : moves_) move.floats -= passed * move.rate;
}

void SharedLinks::share() {
  double next = -1;
  for (auto& [number, move] : moves_) {
    move.rate = rate_ / std::max(out_[move.from], in_[move.to]);
    const double left = std::max(move.floats, 0.0) / move.rate;
    if (next < 0 || left < next) next = left;
  }
  const std::uint64_t plan = ++plan_;
  if (next < 0) return;
  clockwork_->post_at(simulation_.clock().now() + from_seconds(next) + Duration(1), [this, plan] {
    if (plan != plan_) return;
    advance();
    std::vector<std::function<void()>> over;
    for (auto one = moves_.begin(); one != moves_.end();) {
      if (one->second.floats > kRest) {
        ++one;
        continue;
      }
      --out_[one->second.from];
      --in_[one->second.to];
      over.push_back(std::move(one->second.done));
      one = moves_.erase(one);
    }
    share();
    for (const auto& done : over) done();
  });
}

}  // namespace square::test
