// One task sends what all links have to send.
#include "node/links/flush.h"

#include <doctest/doctest.h>

#include "node/parts.h"

using namespace square;
using namespace square::test;

namespace {

const StreamKey kFirst{Epoch(1), SessionId(1), StreamIndex(0)};
const StreamKey kSecond{Epoch(1), SessionId(2), StreamIndex(0)};

struct CountingLink final : Flush::Link {
  std::vector<std::string>& said;
  std::string name;
  std::function<void()> on_turn;

  CountingLink(std::vector<std::string>& log, std::string own) : said(log), name(std::move(own)) {}
  void send_due() override {
    said.push_back(name);
    if (on_turn) on_turn();
  }
};

std::string fill_of(const StreamKey& key) { return "fill " + std::to_string(key.session.value()); }

}  // namespace

TEST_CASE("whoever has something to send only says so; a task on the strand sends it, each link once") {
  Alone alone("n0");
  std::vector<std::string> said;
  Flush flush(*alone.executor, [&](const StreamKey& key) { said.push_back(fill_of(key)); });
  CountingLink one(said, "one");
  CountingLink two(said, "two");
  flush.mark(two);
  flush.mark(one);
  flush.mark(two);
  flush.mark_room(kSecond);
  flush.mark_room(kFirst);
  flush.mark_room(kSecond);
  CHECK(said.empty());
  alone.run();
  CHECK(said == std::vector<std::string>{"fill 1", "fill 2", "two", "one"});
  flush.mark(one);
  alone.run();
  CHECK(said.size() == 5);
}

TEST_CASE("sources and links have their turns until neither has more to do") {
  Alone alone("n0");
  std::vector<std::string> said;
  CountingLink link(said, "link");
  int blocks = 2;
  Flush flush(*alone.executor, [&](const StreamKey& key) {
    said.push_back(fill_of(key));
    if (blocks-- > 0) flush.mark(link);
  });
  link.on_turn = [&] { flush.mark_room(kFirst); };
  flush.mark_room(kFirst);
  alone.run();
  CHECK(said == std::vector<std::string>{"fill 1", "link", "fill 1", "link", "fill 1"});
}

TEST_CASE("a link that is gone has no turn, and a flush that is gone gives none") {
  Alone alone("n0");
  std::vector<std::string> said;
  auto flush = std::make_unique<Flush>(*alone.executor, [](const StreamKey&) {});
  CountingLink gone(said, "gone");
  CountingLink here(said, "here");
  flush->mark(gone);
  flush->mark(here);
  flush->forget(gone);
  alone.run();
  CHECK(said == std::vector<std::string>{"here"});
  flush->mark(here);
  flush.reset();
  alone.run();
  CHECK(said.size() == 1);
}
