// What waits by the system's clock would notice when that is set: nothing does.
#include <dlfcn.h>

#include <atomic>
#include <ctime>
#include <future>

#include "controller_grpc/fixture.h"

using namespace square;
using namespace square::test;

namespace {

// How far this process sees the system's clock ahead of the kernel's, which ends waits.
std::atomic<time_t> g_ahead_seconds{0};

struct Ahead {
  explicit Ahead(std::chrono::seconds by) { g_ahead_seconds = static_cast<time_t>(by.count()); }
  ~Ahead() { g_ahead_seconds = 0; }
};

}  // namespace

// In the place of the C library's, for all libraries of this program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += g_ahead_seconds;
  return result;
}

namespace {

// A node that hears nothing more from the activation of `held` on, before it is let go on, 5 s later at the
// latest.
struct SlowNode final : ControlledNode {
  SlowNode(const Controller& controller, Epoch first) : held(first) {
    auto made =
        ControllerClient::connect({controller.address(), nullptr, "a", "a.example:1", kPatience}, *this);
    REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
    client = std::move(*made);
  }
  void activate_plan(Epoch epoch, bool /*moves*/) override {
    if (epoch >= held) gate.wait_for(5s);
  }

  const Epoch held;
  std::promise<void> go_on;
  std::shared_future<void> gate = go_on.get_future().share();
  std::unique_ptr<ControllerClient> client;
};

}  // namespace

TEST_CASE("a step of the system's clock ends no wait for a plan early, and keeps none too long") {
  // The answer does not come before the first is over, the activation not before the second.
  for (const auto& [step, held] :
       {std::pair(-3600s, 1), std::pair(3600s, 1), std::pair(-3600s, 2), std::pair(3600s, 2)}) {
    CAPTURE(held);
    const auto controller = start(mesh({"a", "b"}));
    SlowNode node(*controller, Epoch(static_cast<std::uint32_t>(held)));
    const auto before = std::chrono::system_clock::now();
    const Ahead stepped(step);
    REQUIRE(std::chrono::abs(std::chrono::system_clock::now() - before) > 50min);
    const auto begun = std::chrono::steady_clock::now();
    const auto late = node.client->register_group(broadcast_group("g", {"a", "b"}), 300ms);
    const auto waited = std::chrono::steady_clock::now() - begun;
    CHECK(late.status().code() == StatusCode::kDeadlineExceeded);
    CHECK(waited >= 250ms);
    CHECK(waited < 3s);
    node.go_on.set_value();
    CHECK(node.client->register_group(broadcast_group("g", {"a", "b"}), kPatience).is_ok());
  }
}
