#include "collective/examination/examiner.h"

#include <pthread.h>

#include <algorithm>
#include <random>
#include <utility>

#include "collective/examination/connections.h"
#include "collective/examination/host.h"
#include "collective/examination/links.h"
#include "collective/examination/processor.h"
#include "square/transport.h"
#include "transport/grpc/ask.h"

namespace square::examination {
namespace {

using ExamineClock = std::chrono::steady_clock;

// What flows is measured for so long at least.
constexpr std::chrono::milliseconds kWindow{600};
// Kept free of the time that a question gives, for the answer's way.
constexpr std::chrono::milliseconds kAnswerTime{500};

Json to_json(const rpc::Asked& asked) {
  Json json;
  json["name"] = asked.to.name;
  json["address"] = asked.to.address;
  json["outcome"] = rpc::to_string(asked.reach);
  json["words"] = asked.words;
  json["node"] = asked.node;
  json["at"] = asked.at;
  json["round_trip_seconds"] = asked.round_trip ? Json(to_seconds(*asked.round_trip)) : Json();
  json["congestion"] = asked.congestion;
  return json;
}

// Null where there is none; what its files have now.
Json describe_identity(const std::shared_ptr<Identity>& identity) {
  if (!identity) return {};
  Json json;
  json["name"] = identity->name() ? Json(to_string(*identity->name())) : Json();
  const auto shown = identity->shown();
  json["issued"] = shown.is_ok() ? Json(shown->issued) : Json();
  json["expires"] = shown.is_ok() ? Json(shown->expires) : Json();
  json["trouble"] = shown.is_ok() ? Json() : Json(shown.status().message());
  return json;
}

}  // namespace

void Examiner::examine(ExamineQuestion question, std::function<void(std::string)> answer) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_ || waiting_.size() >= kMaxQuestions) return;
  waiting_.push_back({std::move(question), std::move(answer)});
  if (std::exchange(is_running_, true)) return;
  if (thread_.joinable()) thread_.join();  // it has left run()
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "square-examine");
    run();
  });
}

void Examiner::stop() {
  std::thread ending;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    waiting_.clear();
    changed_.notify_all();
    ending.swap(thread_);
  }
  if (ending.joinable()) ending.join();
}

void Examiner::run() {
  for (;;) {
    Waiting next;
    {
      const std::lock_guard lock(mutex_);
      is_running_ = !waiting_.empty();
      if (!is_running_) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    std::string found = report(next.question);
    if (!is_stopping_) next.answer(std::move(found));
  }
}

bool Examiner::sleep_until(ExamineClock::time_point end) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_until(lock, end, [this] { return is_stopping_.load(); });
}

std::string Examiner::report(const ExamineQuestion& question) {
  const auto begin = ExamineClock::now();
  ProcessorWatch processor;
  ConnectionWatch connections;
  std::vector<rpc::AskedNode> peers;
  for (const PeerAddress& peer : question.peers) peers.push_back({peer.name, peer.address});
  const Duration time = std::max<Duration>(question.time - kAnswerTime, kWindow);
  Json found;
  found["format"] = "square.examination/1";
  found["node"] = self_.name;
  found["version"] = SQUARE_VERSION;
  found["protocol"] = rpc::link_versions().newest;
  found["oldest_protocol"] = rpc::link_versions().oldest;
  found["identity"] = describe_identity(self_.identity);
  found["is_sealed"] = is_sealed_;
  found["peers"] = Json::array();
  for (const rpc::Asked& asked : rpc::ask_all(self_, peers, time - kWindow, is_stopping_)) {
    found["peers"].push_back(to_json(asked));
  }
  // Nodes of one host are asked at the same time, and must not take one another's noise for a lack.
  std::mt19937 random{std::random_device{}()};
  for (int i = 0; i < kBursts; ++i) {
    const std::chrono::milliseconds pause(std::uniform_int_distribution<int>(10, 120)(random));
    if (!sleep_until(ExamineClock::now() + pause)) return {};
    processor.burn();
    connections.look();
  }
  if (!sleep_until(begin + kWindow)) return {};
  const NodeMetrics metrics = metrics_();
  found["links"] = describe_links(metrics);
  found["troubles"] = describe_troubles(metrics.troubles);
  found["connections"] = connections.end();
  found["processor"] = processor.end();
  add_host(found);
  return found.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace square::examination
