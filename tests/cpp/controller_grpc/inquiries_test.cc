// Questions and answers, without gRPC's lines; times are long, and nobody waits for them.
#include "controller/grpc/inquiries.h"

#include <doctest/doctest.h>

#include <optional>

#include "controller/recorded_line.h"

using namespace square;
using namespace square::controller;
using square::test::RecordedLine;
using square::test::Said;

namespace {

struct Asked {
  std::shared_ptr<Inquiries> inquiries = std::make_shared<Inquiries>();
  std::shared_ptr<RecordedLine> a = std::make_shared<RecordedLine>();
  std::shared_ptr<RecordedLine> b = std::make_shared<RecordedLine>();
  std::optional<Result<v1::ExamineResponse>> reply;

  Asked() {
    inquiries->begin({{"a", "a:1", a, {"b"}}, {"b", "b:1", b, {"a"}}, {"c", "", nullptr, {}}},
                     std::chrono::minutes(1),
                     [this](const Result<v1::ExamineResponse>& answer) { reply.emplace(answer); });
  }
  ~Asked() { inquiries->stop(); }

  void answer(const std::string& node, const std::string& report, std::int64_t ahead = 0) const {
    v1::Examined examined;
    examined.set_inquiry(1);
    examined.set_report_json(report);
    examined.set_received_nanoseconds(wall_nanoseconds() + ahead);
    examined.set_answered_nanoseconds(wall_nanoseconds() + ahead);
    inquiries->answer(node, examined);
  }
};

}  // namespace

TEST_CASE("inquiry: all who are there are asked, and the last answer ends it") {
  Asked asked;
  CHECK(asked.a->heard() == Said{"examine 1"});
  CHECK(asked.b->heard() == Said{"examine 1"});
  asked.answer("a", "{}");
  CHECK_FALSE(asked.reply.has_value());
  asked.answer("a", "again");
  asked.answer("c", "was not asked");
  asked.answer("b", std::string(kMaxReportBytes + 1, 'x'));
  CHECK_FALSE(asked.reply.has_value());
  constexpr std::int64_t kHour = 3'600'000'000'000;
  asked.answer("b", "{}", kHour);
  REQUIRE(asked.reply.has_value());
  REQUIRE(asked.reply->is_ok());
  const v1::ExamineResponse& response = **asked.reply;
  REQUIRE(response.nodes_size() == 3);
  CHECK(response.nodes(0).report_json() == "{}");
  CHECK(response.nodes(0).peers(0) == "b");
  CHECK(response.nodes(2).connected() == false);
  CHECK(response.nodes(2).answered() == false);
  const std::int64_t doubt = response.nodes(1).clock_doubt_nanoseconds();
  CHECK(doubt >= 0);
  CHECK(std::abs(response.nodes(1).clock_ahead_nanoseconds() - kHour) <= doubt);
  CHECK(std::abs(response.nodes(0).clock_ahead_nanoseconds()) <= response.nodes(0).clock_doubt_nanoseconds());
}

TEST_CASE("inquiry: a stop fails it, and there is none afterwards") {
  Asked asked;
  asked.inquiries->stop();
  REQUIRE(asked.reply.has_value());
  CHECK(asked.reply->status().code() == StatusCode::kUnavailable);
  asked.reply.reset();
  asked.inquiries->begin({{"a", "a:1", asked.a, {}}}, std::chrono::minutes(1),
                         [&](const Result<v1::ExamineResponse>& answer) { asked.reply.emplace(answer); });
  REQUIRE(asked.reply.has_value());
  CHECK(asked.reply->status().code() == StatusCode::kUnavailable);
}

TEST_CASE("inquiry: only so many at the same time") {
  const auto inquiries = std::make_shared<Inquiries>();
  const auto line = std::make_shared<RecordedLine>();
  std::size_t refused = 0;
  for (std::size_t i = 0; i < kMaxInquiries + 2; ++i) {
    inquiries->begin({{"a", "a:1", line, {}}}, std::chrono::minutes(1),
                     [&](const Result<v1::ExamineResponse>& answer) {
                       if (answer.status().code() == StatusCode::kResourceExhausted) ++refused;
                     });
  }
  CHECK(refused == 2);
  inquiries->stop();
}

TEST_CASE("inquiry: without anybody there it is answered at once") {
  const auto inquiries = std::make_shared<Inquiries>();
  bool is_answered = false;
  inquiries->begin({{"a", "", nullptr, {}}}, std::chrono::minutes(1),
                   [&](const Result<v1::ExamineResponse>& answer) {
                     REQUIRE(answer.is_ok());
                     CHECK(answer->nodes_size() == 1);
                     is_answered = true;
                   });
  CHECK(is_answered);
}
