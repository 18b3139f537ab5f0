// What a destination solves for, and what it leaves to the source.
#include "node/codes/generations.h"

#include <doctest/doctest.h>

#include "node/butterfly.h"

using namespace square;
using namespace square::test;

namespace {

using Place = Generations::Place;

// At node 6, which gets every second block as it is, and the sums.
class AtNodeSix {
 public:
  explicit AtNodeSix(FieldKind field)
      : plan_(butterfly_plan(10 * kMbps, field)),
        frame_(*plan_, names(), NodeId(6)),
        collective_(frame_, plan_->collectives.front(), {{&plan_->sessions.front(), 0.0}}) {}

  [[nodiscard]] Generations::Part sum(bool are_floats) const {
    for (const LocalStream& stream : collective_.streams()) {
      if (stream.coded == nullptr || stream.block) continue;
      const std::shared_ptr<const LocalStream> held(std::shared_ptr<const LocalStream>(), &stream);
      return {held, {Buffer::copy_of(std::vector<std::byte>(64)), {}}, nullptr, stream.coded_as(are_floats)};
    }
    FAIL("no sum comes to node 6");
    return {};
  }

 private:
  static NodeNames names() {
    std::vector<std::string> all;
    for (std::size_t node = 0; node < kNodes; ++node) all.push_back(node_name(node));
    return std::make_shared<const std::vector<std::string>>(all);
  }

  std::shared_ptr<const Plan> plan_;
  PlanFrame frame_;
  InstalledCollective collective_;
};

Generations::PlaceOf places(std::vector<Place> list) {
  return [list = std::move(list)](std::size_t block) { return list.at(block); };
}

}  // namespace

TEST_CASE("a block is solved for with those that are there") {
  const AtNodeSix six(FieldKind::kFloat32);
  for (const bool are_floats : {false, true}) {
    Generations generations(4);
    generations.add(2, 2, six.sum(are_floats));
    CHECK_FALSE(generations.solve(places({Place::kHere, Place::kHere, Place::kMissing, Place::kMissing})));
    CHECK_FALSE(generations.solve(places({Place::kHere, Place::kHere, Place::kMissing, Place::kComing})));
    const auto solution =
        generations.solve(places({Place::kHere, Place::kHere, Place::kMissing, Place::kHere}));
    REQUIRE(solution);
    CHECK(solution->missing == std::vector<std::size_t>{2});
    CHECK(solution->known == std::vector<std::size_t>{3});
    CHECK(solution->matrix == std::vector<std::vector<double>>{{1, are_floats ? -1.0 : 1.0}});
  }
}

TEST_CASE("nothing is solved for with a block that is rounded") {
  const AtNodeSix six(FieldKind::kFloat32);
  for (const bool are_floats : {false, true}) {
    Generations generations(4);
    generations.add(1, 3, six.sum(are_floats));
    CHECK_FALSE(generations.solve(places({Place::kHere, Place::kMissing, Place::kRounded, Place::kHere})));
    // It came once more, as it is.
    const auto solution =
        generations.solve(places({Place::kHere, Place::kMissing, Place::kHere, Place::kHere}));
    REQUIRE(solution);
    CHECK(solution->missing == std::vector<std::size_t>{1});
  }
}

TEST_CASE("sums of one generation that are coded in two ways are not mixed") {
  const AtNodeSix six(FieldKind::kFloat32);
  Generations generations(4);
  generations.add(0, 1, six.sum(true));
  generations.add(0, 1, six.sum(false));  // dropped
  const auto solution =
      generations.solve(places({Place::kMissing, Place::kHere, Place::kMissing, Place::kMissing}));
  REQUIRE(solution);
  CHECK(solution->field == FieldKind::kFloat32);
}
