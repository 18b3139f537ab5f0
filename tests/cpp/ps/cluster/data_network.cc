#include "ps/cluster/data_network.h"

#include <algorithm>
#include <utility>

namespace square::test {
namespace {

constexpr double kUsualRate = 2000;  // floats per second
constexpr Duration kDelay = std::chrono::milliseconds(5);

}  // namespace

void DataNetwork::set_process(const std::string& host, Executor* executor) {
  processes_[host] = executor;
  if (executor != nullptr) return;
  std::vector<std::string> broken;
  for (const auto& [key, transfer] : transfers_) {
    if (transfer.from == host || transfer.to == host) broken.push_back(key);
  }
  for (const std::string& key : broken) fail(key, unavailable(host + " is gone"));
}

void DataNetwork::set_blocked(const std::string& one, const std::string& other, bool is_blocked) {
  blocked_[{one, other}] = blocked_[{other, one}] = is_blocked;
}

double DataNetwork::rate(const std::string& host) const {
  const auto found = rates_.find(host);
  return found == rates_.end() ? kUsualRate : found->second;
}

DataNetwork::Transfer& DataNetwork::transfer(const std::string& key, const std::string& from,
                                             const std::string& to) {
  Transfer& transfer = transfers_[key];
  if (transfer.number != 0) return transfer;
  transfer.from = from;
  transfer.to = to;
  transfer.number = ++last_;
  clockwork_->post_at(simulation_.clock().now() + kTimeout, [this, key, number = transfer.number] {
    const auto found = transfers_.find(key);
    if (found == transfers_.end() || found->second.number != number || found->second.is_moving) return;
    fail(key, deadline_exceeded("the other end did not come"));
  });
  return transfer;
}

void DataNetwork::send(const std::string& key, const std::string& from, const std::string& to, Values values,
                       std::function<void(Status)> done) {
  Transfer& one = transfer(key, from, to);
  one.values = std::move(values);
  one.sent = std::move(done);
  begin(key);
}

void DataNetwork::receive(const std::string& key, const std::string& from, const std::string& to,
                          std::function<void(Result<Values>)> done) {
  transfer(key, from, to).received = std::move(done);
  begin(key);
}

void DataNetwork::begin(const std::string& key) {
  Transfer& one = transfers_.at(key);
  if (!one.values || !one.received) return;
  one.is_moving = true;
  const double floats = static_cast<double>(one.values->size());
  if (links_) {
    return links_->begin(one.number, one.from, one.to, floats,
                         [this, key, number = one.number] { arrive(key, number); });
  }
  const Duration time = kDelay + from_seconds(floats / std::min(rate(one.from), rate(one.to)));
  clockwork_->post_at(simulation_.clock().now() + time,
                      [this, key, number = one.number] { arrive(key, number); });
}

void DataNetwork::arrive(const std::string& key, std::uint64_t number) {
  const auto found = transfers_.find(key);
  if (found == transfers_.end() || found->second.number != number) return;
  if (blocked_[{found->second.from, found->second.to}]) {
    fail(key, unavailable("the line is cut"));
    return;
  }
  Transfer one = std::move(found->second);
  transfers_.erase(found);
  processes_[one.from]->post([sent = std::move(one.sent)] { sent({}); });
  processes_[one.to]->post(
      [received = std::move(one.received), values = std::move(*one.values)] { received(values); });
}

void DataNetwork::fail(const std::string& key, const Status& reason) {
  const auto found = transfers_.find(key);
  if (found == transfers_.end()) return;
  Transfer one = std::move(found->second);
  transfers_.erase(found);
  if (links_) links_->end(one.number);
  Executor* const from = processes_[one.from];
  Executor* const to = processes_[one.to];
  if (one.sent && from != nullptr) from->post([sent = one.sent, reason] { sent(reason); });
  if (one.received && to != nullptr) to->post([received = one.received, reason] { received(reason); });
}

void DataNetwork::cancel(const std::string& key) { fail(key, cancelled("it is not wanted any more")); }

}  // namespace square::test
