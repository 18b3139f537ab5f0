// How many operations a tenant may have open on a node.
#include "node/operations/shares.h"

#include <doctest/doctest.h>

#include <deque>

#include "node/operations/open_operations.h"
#include "node/tenants.h"

using namespace square;
using namespace square::test;

namespace {

// Takes what it gets.
class Taking {
 public:
  explicit Taking(std::size_t room) : shares_(room) {}

  std::size_t take_all(const std::string& tenant) {
    std::size_t taken = 0;
    while (shares_.take({CollectiveId(0), OperationId(next_)}, tenant)) {
      ++taken;
      ++next_;
    }
    return taken;
  }
  void give_back(std::uint64_t from, std::uint64_t to) {
    for (; from < to; ++from) shares_.give_back({CollectiveId(0), OperationId(from)});
  }

 private:
  Shares shares_;
  std::uint64_t next_ = 0;
};

}  // namespace

TEST_CASE("shares: a tenant may have as many as are free") {
  Taking taking(96);
  CHECK(taking.take_all("a") == 48);
  CHECK(taking.take_all("b") == 24);
  CHECK(taking.take_all("c") == 12);
  CHECK(taking.take_all("a") == 0);
  // What one gives back all others may have, and so it may not have all again.
  taking.give_back(0, 48);
  CHECK(taking.take_all("c") == 24);
  CHECK(taking.take_all("b") == 6);
  CHECK(taking.take_all("a") == 15);
  CHECK(taking.take_all("d") == 8);
}

TEST_CASE("shares: what was not taken is not given back") {
  Taking taking(8);
  CHECK(taking.take_all("a") == 4);
  taking.give_back(100, 110);
  CHECK(taking.take_all("a") == 0);
}

TEST_CASE("a tenant that calls without end leaves the others room for their operations") {
  constexpr std::uint32_t kCollectives = 10;
  Overlay overlay(37, 2);
  TenantPlan plan(2);
  plan.add_link(0, 1, 100 * kMbps);
  const CollectiveId modest = plan.add_chain("modest", {0, 1}, 10 * kMbps);
  std::vector<CollectiveId> greedy;
  for (std::uint32_t i = 0; i < kCollectives; ++i)
    greedy.push_back(plan.add_chain("greedy", {0, 1}, 1 * kMbps));
  REQUIRE(overlay.publish(plan.build()));
  overlay.set_members(modest, {0, 1});
  for (const CollectiveId collective : greedy) overlay.set_members(collective, {0, 1});

  // Nobody meets them at the other end.
  std::deque<Broadcast> calls;
  for (std::uint64_t i = 0; i < kMaxOpenOperations + 100; ++i) {
    calls.emplace_back(greedy[i % kCollectives], std::vector<std::uint32_t>{0, 1}, payload(8, i));
    calls.back().operation = OperationId(i / kCollectives);
    calls.back().post(overlay, 0);
  }
  pass(overlay, std::chrono::seconds(1));
  for (const Broadcast& call : calls) CHECK_FALSE(call.outcomes[0]);

  Broadcast own(modest, {0, 1}, payload(100'000));
  own.post_all(overlay);
  REQUIRE(overlay.run([&] { return own.is_over(); }, std::chrono::seconds(60)));
  CHECK(own.is_right());

  // Those that found no room wait, and go when others have ended.
  for (Broadcast& call : calls) call.post(overlay, 1);
  REQUIRE(overlay.run([&] { return std::ranges::all_of(calls, &Broadcast::is_over); },
                      std::chrono::seconds(300)));
  CHECK(std::ranges::all_of(calls, &Broadcast::is_right));
}
