// Layouts of drawn models and servers: nothing is lost, and of what there is little moves.
#include "ps/layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "ps/protocol.h"
#include "world/draw.h"

namespace square::ps {
namespace {

using test::Dice;

v1::PsModel drawn_model(Dice& dice) {
  v1::PsModel model;
  const std::size_t tensors = 1 + dice.below(6);
  for (std::size_t i = 0; i < tensors; ++i) {
    v1::PsTensor& tensor = *model.add_tensors();
    tensor.set_name(std::to_string(i));
    tensor.set_dtype("float32");
    tensor.add_shape(1 + dice.below(dice.one_in(3) ? 5 : 2000));
  }
  return model;
}

std::vector<ServerShare> drawn_servers(Dice& dice, const std::string& prefix, std::size_t count) {
  std::vector<ServerShare> servers;
  for (std::size_t i = 0; i < count; ++i) {
    servers.push_back({prefix + std::to_string(i), dice.one_in(4) ? 0 : dice.between(1.0, 10.0)});
  }
  return servers;
}

// Every element is one server's.
bool covers_once(const v1::PsLayout& layout, const v1::PsModel& model) {
  std::uint64_t end = 0;
  for (const v1::PsShard& shard : layout.shards()) {
    if (shard.begin() != end || shard.end() < shard.begin()) return false;
    end = shard.end();
  }
  return end == elements_of(model);
}

std::vector<std::string> names_of(const v1::PsLayout& layout, const std::vector<ServerShare>& among) {
  std::vector<std::string> names;
  for (const v1::PsShard& shard : layout.shards()) {
    if (std::ranges::find(among, shard.server(), &ServerShare::name) != among.end()) {
      names.push_back(shard.server());
    }
  }
  return names;
}

// Counted one by one: elements that are on another server after than before.
std::uint64_t moved(const v1::PsLayout& before, const v1::PsLayout& after) {
  std::uint64_t elements = 0;
  for (const v1::PsShard& now : after.shards()) {
    const v1::PsShard* const had = shard_of(before, now.server());
    for (std::uint64_t i = now.begin(); i < now.end(); ++i) {
      if (had == nullptr || i < had->begin() || i >= had->end()) ++elements;
    }
  }
  return elements;
}

// Of all orders that keep that of the servers with a layout, the one that moves least.
std::uint64_t fewest_moved(const v1::PsModel& model, const v1::PsLayout& before,
                           const std::vector<ServerShare>& servers, std::vector<ServerShare> newcomers) {
  if (newcomers.empty()) return moved(before, make_layout(model, servers));
  const ServerShare next = newcomers.back();
  newcomers.pop_back();
  std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t place = 0; place <= servers.size(); ++place) {
    std::vector<ServerShare> tried = servers;
    tried.insert(tried.begin() + static_cast<std::ptrdiff_t>(place), next);
    fewest = std::min(fewest, fewest_moved(model, before, tried, newcomers));
  }
  return fewest;
}

}  // namespace

TEST_CASE("servers that come later move as few elements as any place for them would") {
  std::uint64_t of_two = 0;
  std::uint64_t fewest_of_two = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Dice dice(seed);
    const v1::PsModel model = drawn_model(dice);
    const std::vector<ServerShare> servers = drawn_servers(dice, "old", 1 + dice.below(3));
    const std::size_t most = servers.size() == 3 ? 1 : 2;
    const std::vector<ServerShare> newcomers = drawn_servers(dice, "new", 1 + dice.below(most));
    const v1::PsLayout before = make_layout(model, servers);
    const v1::PsLayout after = grow_layout(model, before, servers, newcomers);
    CAPTURE(seed);
    CHECK(covers_once(before, model));
    CHECK(covers_once(after, model));
    CHECK(names_of(after, servers) == names_of(before, servers));
    CHECK(names_of(after, newcomers).size() == newcomers.size());
    CHECK(static_cast<std::size_t>(after.shards_size()) == servers.size() + newcomers.size());
    const std::uint64_t fewest = fewest_moved(model, before, servers, newcomers);
    if (newcomers.size() == 1) {
      CHECK(moved(before, after) == fewest);
    } else {
      of_two += moved(before, after);
      fewest_of_two += fewest;
    }
  }
  // Several are put one after the other, which is not always best.
  CHECK(static_cast<double>(of_two) <= 1.01 * static_cast<double>(fewest_of_two));
}

TEST_CASE("shares are as capacities are, and cuts are where tensors end if that is near") {
  v1::PsModel model;
  for (const std::uint64_t elements : {290, 410, 300}) {
    v1::PsTensor& tensor = *model.add_tensors();
    tensor.set_name(std::to_string(elements));
    tensor.set_dtype("float32");
    tensor.add_shape(elements);
  }
  const auto ends = [&](const std::vector<ServerShare>& servers) {
    const v1::PsLayout layout = make_layout(model, servers);
    std::vector<std::uint64_t> all;
    for (const v1::PsShard& shard : layout.shards()) all.push_back(shard.end());
    return all;
  };
  using Ends = std::vector<std::uint64_t>;
  CHECK(ends({{"a", 1}, {"b", 3}}) == Ends{250, 1000});
  CHECK(ends({{"a", 3}, {"b", 7}}) == Ends{290, 1000});
  CHECK(ends({{"a", 0}, {"b", 6}, {"c", 2}, {"d", 0}}) == Ends{250, 625, 750, 1000});
  CHECK(ends({{"a", 0}, {"b", 0}}) == Ends{500, 1000});
  // What a server says is not always sense.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(ends({{"a", kInfinity}, {"b", 1}}) == Ends{500, 1000});
  CHECK(ends({{"a", -1}, {"b", std::numeric_limits<double>::quiet_NaN()}}) == Ends{500, 1000});
}

}  // namespace square::ps
