// Messages between real nodes: their order, their tags, what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "collective/real_group.h"

using namespace square;
using namespace square::test;

namespace {

using Bytes = std::vector<std::byte>;

// As pattern(), but fast: for what is larger than any window.
Bytes large(std::size_t size, std::uint64_t seed) {
  std::vector<std::uint64_t> words(size / sizeof(std::uint64_t));
  std::mt19937_64 random(seed);
  for (std::uint64_t& word : words) word = random();
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("messages with one tag arrive in their order, in both directions at once") {
  Fixture overlay({"a", "b"}, "exact", 1e9);
  // Ranks 0 and 2 share a node: their messages need no link.
  const Members members = overlay.group_on({0, 1, 0}, "g");
  constexpr unsigned kMessages = 10;
  std::vector<std::shared_ptr<Work>> works;
  std::vector<Bytes> sent;
  std::vector<std::vector<Bytes>> got(3);
  const auto size_of = [](unsigned i) { return i * std::size_t{997} % 4'000; };
  for (unsigned i = 0; i < kMessages; ++i) {
    sent.push_back(pattern(size_of(i), i));
    for (auto& messages : got) messages.emplace_back(size_of(i));
  }
  for (unsigned i = 0; i < kMessages; ++i) {
    for (const std::uint32_t rank : {0U, 1U, 2U}) {
      const Rank to((rank + 1) % 3);
      const Rank from((rank + 2) % 3);
      works.push_back(*members[rank]->send_async(sent[i], to, 7, kLimit));
      works.push_back(*members[rank]->receive_async(got[rank][i], from, 7, kLimit));
    }
  }
  for (const auto& work : works) CHECK(work->wait() == Status::ok());
  for (const auto& messages : got) CHECK(messages == sent);
}

TEST_CASE("messages with different tags do not wait for one another, however large") {
  Fixture overlay({"a", "b"}, "exact", 10e9);
  const Members members = overlay.group("g");
  constexpr std::size_t kLarge = std::size_t{64} << 20U;  // as large as all windows of a plan
  const std::vector<Bytes> sent{large(kLarge, 1), large(kLarge, 2)};
  std::vector<Bytes> got{Bytes(kLarge), Bytes(kLarge)};
  std::vector<std::shared_ptr<Work>> sends;
  for (const std::uint32_t tag : {0U, 1U})
    sends.push_back(*members[0]->send_async(sent[tag], Rank(1), tag, kLimit));
  // In the opposite order, and the first only when the second is there.
  CHECK(members[1]->receive(got[1], Rank(0), 1, kLimit) == Status::ok());
  CHECK(got[1] == sent[1]);
  CHECK_FALSE(sends[0]->is_done());
  CHECK(members[1]->receive(got[0], Rank(0), 0, kLimit) == Status::ok());
  CHECK(got[0] == sent[0]);
  for (const auto& work : sends) CHECK(work->wait() == Status::ok());
}

TEST_CASE("a tag is a channel of its own, up to the largest; gathers do not take messages") {
  Fixture overlay({"a", "b"}, "exact");
  const Members members = overlay.group("g");
  const Bytes first = pattern(100, 1);
  const Bytes second = pattern(100, 2);
  Bytes message(100);
  std::vector<Bytes> gathered(2, Bytes(100));
  // At rank 1 the message is sent before the gather, at rank 0 received after it.
  const auto sent = *members[1]->send_async(first, Rank(0), Communicator::kMaxTag, kLimit);
  const auto given = *members[1]->gather_async(second, {}, Rank(0), kLimit);
  CHECK(members[0]->gather(second, {gathered.begin(), gathered.end()}, Rank(0), kLimit) == Status::ok());
  CHECK(gathered[1] == second);
  CHECK(members[0]->receive(message, Rank(1), Communicator::kMaxTag, kLimit) == Status::ok());
  CHECK(message == first);
  CHECK(sent->wait() == Status::ok());
  CHECK(given->wait() == Status::ok());
}

TEST_CASE("messages that cannot be are refused, and the group goes on") {
  Fixture overlay({"a", "b"}, "exact");
  const Members members = overlay.group("g");
  Bytes message = pattern(100, 1);
  const auto check_refused = [](const Status& outcome, const std::string& words) {
    CHECK(outcome.code() == StatusCode::kInvalidArgument);
    CHECK_MESSAGE(outcome.message().find(words) != std::string::npos, outcome.message());
  };
  check_refused(members[0]->send(message, Rank(0), 0, kLimit),
                "rank 0 is the destination of its own message");
  check_refused(members[1]->receive(message, Rank(1), 0, kLimit), "rank 1 is the source of its own message");
  check_refused(members[0]->send(message, Rank(2), 0, kLimit),
                "destination 2 is not a rank of group \"g\" of 2");
  check_refused(members[0]->receive(message, Rank(2), 0, kLimit), "source 2 is not a rank");
  check_refused(members[0]->send(message, Rank(1), Communicator::kMaxTag + 1, kLimit),
                "tag 2147483648 is above 2147483647");
  check_refused(members[0]->receive(message, Rank(1), Communicator::kMaxTag + 1, kLimit), "tag 2147483648");
  const auto sent = *members[0]->send_async(message, Rank(1), 0, kLimit);
  Bytes got(100);
  CHECK(members[1]->receive(got, Rank(0), 0, kLimit) == Status::ok());
  CHECK(sent->wait() == Status::ok());
  CHECK(got == message);
}

TEST_CASE("a message of another size than its receiver's fails at both ends, which names both") {
  Fixture overlay({"a", "b"}, "exact");
  const Members members = overlay.group("g");
  Bytes buffer(1'000);
  const auto sent = *members[0]->send_async(buffer, Rank(1), 0, kLimit);
  Bytes small(999);
  const Status got = members[1]->receive(small, Rank(0), 0, kLimit);
  for (const Status& outcome : {got, sent->wait()}) {
    CHECK(outcome.code() == StatusCode::kInvalidArgument);
    CHECK_MESSAGE(outcome.message().find(
                      "rank 1 on node \"b\" posted a buffer of 999 bytes where 1000 arrive from node "
                      "\"a\"") != std::string::npos,
                  outcome.message());
  }
}

TEST_CASE("a receive from anybody takes whichever message comes, each once, and says whose") {
  Fixture overlay({"a", "b", "c"}, "exact", 1e9);
  // Rank 3 lives with the receiver.
  const Members members = overlay.group_on({0, 1, 2, 0}, "g");
  constexpr unsigned kMessages = 8;
  std::vector<std::vector<Bytes>> sent(4);
  std::vector<std::shared_ptr<Work>> sends;
  for (const std::uint32_t rank : {1U, 2U, 3U}) {
    for (unsigned i = 0; i < kMessages; ++i) sent[rank].push_back(pattern(50'000, 100 * rank + i));
  }
  // Half of the receives are there before anything is sent, all in flight at once.
  std::vector<Bytes> got(3 * kMessages, Bytes(50'000));
  std::vector<std::shared_ptr<Work>> works;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i == got.size() / 2) {
      CHECK_FALSE(works.front()->wait_for(std::chrono::milliseconds(20)));
      CHECK_FALSE(works.front()->source().has_value());
      for (const std::uint32_t rank : {1U, 2U, 3U}) {
        for (const Bytes& message : sent[rank])
          sends.push_back(*members[rank]->send_async(message, Rank(0), 5, kLimit));
      }
    }
    works.push_back(*members[0]->receive_any_async(got[i], 5, kLimit));
  }
  std::vector<std::vector<Bytes>> by_source(4);
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(works[i]->wait() == Status::ok());
    REQUIRE(works[i]->source().has_value());
    by_source[works[i]->source()->index()].push_back(got[i]);
  }
  for (const std::uint32_t rank : {1U, 2U, 3U}) {
    // Each message once; which of two receives gets which of one member's is not said.
    std::ranges::sort(by_source[rank]);
    std::ranges::sort(sent[rank]);
    CHECK(by_source[rank] == sent[rank]);
  }
  for (const auto& work : sends) CHECK(work->wait() == Status::ok());
}

TEST_CASE("receives from anybody, one after another, keep the order of each member's messages") {
  Fixture overlay({"a", "b", "c"}, "exact", 1e9);
  const Members members = overlay.group("g");
  constexpr unsigned kMessages = 20;
  std::vector<std::shared_ptr<Work>> sends;
  std::vector<std::vector<Bytes>> sent(3);
  for (const std::uint32_t rank : {1U, 2U}) {
    for (unsigned i = 0; i < kMessages; ++i) sent[rank].push_back(pattern(100, 100 * rank + i));
    for (const Bytes& message : sent[rank])
      sends.push_back(*members[rank]->send_async(message, Rank(0), 0, kLimit));
  }
  std::vector<std::vector<Bytes>> got(3);
  for (unsigned i = 0; i < 2 * kMessages; ++i) {
    Bytes message(100);
    // Now and then one with a name takes what another would have.
    if (i % 5 == 4 && got[2].size() < kMessages) {
      CHECK(members[0]->receive(message, Rank(2), 0, kLimit) == Status::ok());
      got[2].push_back(message);
      continue;
    }
    const auto source = members[0]->receive_any(message, 0, kLimit);
    REQUIRE_MESSAGE(source.is_ok(), source.status().to_string());
    got[source->index()].push_back(message);
  }
  CHECK(got == sent);
  for (const auto& work : sends) CHECK(work->wait() == Status::ok());
}

TEST_CASE("a receive from anybody can be cancelled, and times out, by name") {
  Fixture overlay({"a", "b"}, "exact");
  Bytes message(100);
  const Members first = overlay.group("first");
  const auto work = *first[0]->receive_any_async(message, 3, kLimit);
  CHECK_FALSE(work->wait_for(std::chrono::milliseconds(20)));
  work->cancel();
  CHECK(work->wait().code() == StatusCode::kCancelled);
  CHECK_FALSE(work->source().has_value());
  CHECK(first[0]->barrier(kLimit).code() == StatusCode::kFailedPrecondition);
  const Members second = overlay.group("second");
  const auto late = second[0]->receive_any(message, 3, std::chrono::milliseconds(100));
  CHECK(late.status().code() == StatusCode::kDeadlineExceeded);
  CHECK_MESSAGE(late.status().message().find("rank 0: no message with tag 3 from any rank in 0.1 s") !=
                    std::string::npos,
                late.status().message());
  const Members alone = overlay.group_on({0}, "alone");
  CHECK(alone[0]->receive_any(message, 0, kLimit).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("receives from any source beside a silent member leave nothing behind") {
  Fixture overlay({"a", "b", "c"}, "exact", 1e9);
  const auto members = overlay.group("g");
  constexpr int kMessages = 4'200;  // more than a node lets members wait for
  std::thread sender([&] {
    Bytes message(4);
    for (int i = 0; i < kMessages; ++i) {
      if (!members[1]->send(message, Rank(0), 0, kLimit).is_ok()) return;
    }
  });
  Bytes message(4);
  int received = 0;
  for (; received < kMessages; ++received) {
    if (!members[0]->receive_any(message, 0, kLimit).is_ok()) break;
  }
  sender.join();
  CHECK(received == kMessages);
  // A shorter wait ends in its own time.
  CHECK(members[0]->receive_any(message, 0, std::chrono::milliseconds(50)).status().code() ==
        StatusCode::kDeadlineExceeded);
}
