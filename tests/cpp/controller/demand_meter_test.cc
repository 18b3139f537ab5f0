#include "controller/demand_meter.h"

#include <doctest/doctest.h>

namespace square::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr CollectiveId kFirst(0);
constexpr CollectiveId kSecond(1);
constexpr CollectiveId kOther(2);

// Two groups of one tenant and one of another, each of one collective.
const std::vector<TenantUses> kTenants = {TenantUses{{{kFirst}}, {{kSecond}}}, TenantUses{{{kOther}}}};

const std::vector<NodeId> kMembers = {NodeId(3), NodeId(5)};

struct Meter {
  DemandMeter meter;
  DemandMeter::TimePoint now{seconds(100)};

  double weight(CollectiveId id) {
    const DemandWeights& weights = meter.update(kTenants, now);
    const auto found = weights.find(id);
    return found == weights.end() ? 1.0 : found->second;
  }
  // Of all members.
  void note(CollectiveId id, double bytes) {
    for (const NodeId member : kMembers) CHECK(say(id, member, bytes));
  }
  bool say(CollectiveId id, NodeId node, double bytes) {
    return meter.note(id, node, bytes, now, [] { return kMembers; });
  }
  // `first` bytes each second, `second` bytes each second, for so long.
  void use(double first, double second, int for_seconds) {
    for (int i = 0; i < for_seconds; ++i) {
      now += seconds(1);
      if (first > 0) note(kFirst, first);
      if (second > 0) note(kSecond, second);
      (void)weight(kFirst);
    }
  }
};

}  // namespace

TEST_CASE("groups of a tenant share by what they carried lately") {
  Meter one;
  CHECK(one.weight(kFirst) == 1);  // new: nobody can know
  one.use(1e6, 1e6, 10);
  CHECK(one.weight(kFirst) == 1);
  CHECK(one.weight(kSecond) == 1);
  one.use(16e6, 1e6, 30);
  CHECK(one.weight(kFirst) == 1);
  CHECK(one.weight(kSecond) == 1.0 / 16);
  one.use(1e9, 1, 30);
  CHECK(one.weight(kSecond) == kLeastDemandWeight);
  one.use(1, 1e9, 40);  // the other way round
  CHECK(one.weight(kFirst) == kLeastDemandWeight);
  CHECK(one.weight(kSecond) == 1);
}

TEST_CASE("a group that nobody calls has the least weight after its grace") {
  Meter one;
  (void)one.weight(kSecond);
  one.use(1e6, 0, 1);
  CHECK(one.weight(kSecond) == 1);
  one.use(1e6, 0, 2);
  CHECK(one.weight(kSecond) == kLeastDemandWeight);
  // A single call of its own size brings it back.
  one.use(1e6, 20e6, 1);
  CHECK(one.weight(kSecond) == 1);
}

TEST_CASE("use that swings a little changes no weight") {
  Meter one;
  one.use(10e6, 1e6, 20);
  const double before = one.weight(kSecond);
  CHECK(before < 1);
  for (const double part : {0.6, 1.6, 0.7, 1.5}) {
    one.use(10e6, part * 1e6, 10);
    CHECK(one.weight(kSecond) == before);
  }
}

TEST_CASE("a pause of the whole tenant changes nothing until it is idle") {
  Meter one;
  one.use(10e6, 5e6, 20);
  one.now += kDemandIdle - seconds(1);
  CHECK(one.weight(kFirst) == 1);
  CHECK(one.weight(kSecond) == 1);
  one.now += seconds(2);
  CHECK(one.weight(kFirst) == kLeastDemandWeight);
  CHECK(one.weight(kSecond) == kLeastDemandWeight);
}

TEST_CASE("one tenant's use is no measure for another's") {
  Meter one;
  (void)one.weight(kOther);
  for (int i = 0; i < 30; ++i) {
    one.use(1e9, 1e9, 1);
    one.note(kOther, 10);
  }
  CHECK(one.weight(kOther) == 1);
}

TEST_CASE("turns of a group weigh what the group does, however much each is used") {
  Meter one;
  const std::vector<TenantUses> tenants = {TenantUses{{{kFirst}, {kSecond}}, {{kOther}}}};
  for (int i = 0; i < 30; ++i) {
    one.now += seconds(1);
    one.note(kFirst, 1e9);
    (void)one.meter.update(tenants, one.now);
  }
  CHECK(one.meter.update(tenants, one.now) == DemandWeights{{kOther, kLeastDemandWeight}});
  for (int i = 0; i < 40; ++i) {
    one.now += seconds(1);
    one.note(kSecond, 1);
    one.note(kOther, 1e9);
    (void)one.meter.update(tenants, one.now);
  }
  CHECK(one.meter.update(tenants, one.now) ==
        DemandWeights{{kFirst, kLeastDemandWeight}, {kSecond, kLeastDemandWeight}});
}

TEST_CASE("what runs at once in a group shares by use") {
  Meter one;
  const std::vector<TenantUses> tenants = {TenantUses{{{kFirst, kSecond}, {kOther}}}};
  for (int i = 0; i < 30; ++i) {
    one.now += seconds(1);
    one.note(kFirst, 1e9);
    (void)one.meter.update(tenants, one.now);
  }
  CHECK(one.meter.update(tenants, one.now) == DemandWeights{{kSecond, kLeastDemandWeight}});
}

TEST_CASE("one member alone makes a collective no more used, and who is none moves nothing") {
  Meter one;
  one.use(16e6, 1e6, 20);
  CHECK(one.weight(kSecond) == 1.0 / 16);
  for (int i = 0; i < 20; ++i) {
    CHECK(one.say(kSecond, kMembers[0], 1e15));
    CHECK_FALSE(one.say(kFirst, NodeId(4), 1e15));
    CHECK_FALSE(one.say(kSecond, NodeId(4), 1e15));
    one.use(16e6, 1e6, 1);
  }
  CHECK(one.weight(kFirst) == 1);
  CHECK(one.weight(kSecond) == 1.0 / 16);
}

TEST_CASE("collectives that are gone are forgotten") {
  Meter one;
  one.use(1e9, 1, 30);
  CHECK(one.meter.update({TenantUses{{{kSecond}}}}, one.now).empty());
  CHECK(one.weight(kFirst) == 1);  // new again
}

}  // namespace square::controller
