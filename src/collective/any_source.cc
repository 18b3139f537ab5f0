#include "collective/any_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "collective/point_to_point.h"
#include "square/clock.h"

namespace square {
namespace {

class AnySource final : public Work,
                        public Arrivals::Listener,
                        public std::enable_shared_from_this<AnySource> {
 public:
  AnySource(std::shared_ptr<GroupCalls> group, std::span<std::byte> data, std::uint32_t tag, Duration timeout)
      : group_(std::move(group)),
        data_(data),
        tag_(tag),
        timeout_(timeout),
        deadline_(group_->host().clock().now() + std::clamp(timeout, Duration(0), kLongestTimeout)) {}

  void begin() override {
    for (const Rank source : group_->ranks()) {
      if (source != group_->rank()) listen_to(source);
    }
  }

  Status wait() override { return outcome_.wait(); }
  bool wait_for(Duration timeout) override { return outcome_.wait_for(timeout); }
  [[nodiscard]] bool is_done() const override { return outcome_.is_set(); }
  void on_done(std::function<void()> notify) override { outcome_.on_set(std::move(notify)); }
  [[nodiscard]] bool is_waiting() const override { return !outcome_.is_set() && !receiving_now(); }
  [[nodiscard]] TimePoint deadline() const override { return deadline_; }
  void on_arrival(const Arrivals::Message& message, const Status& outcome) override {
    if (!is_waiting()) return;
    const GroupCalls::Next next{message.collective, message.operation};
    if (outcome.code() == StatusCode::kDeadlineExceeded) {
      if (group_->arrivals().first_deadline(channel()) > group_->host().clock().now())
        return listen_to(message.source);
      const Status cause =
          deadline_exceeded(fmt::format("rank {}: no message with tag {} from any rank in {:.1f} s",
                                        group_->rank().value(), tag_, to_seconds(timeout_)));
      return end_all(next, cause);
    }
    if (!outcome.is_ok()) return end_all(std::nullopt, outcome);
    // Unless another receive has taken that message.
    if (!receive_from(message.source, next)) listen_to(message.source);
  }
  [[nodiscard]] std::optional<Rank> source() const override {
    const std::lock_guard lock(mutex_);
    return received_ ? source_ : std::nullopt;
  }
  [[nodiscard]] WorkProgress progress() const override {
    const auto receiving = receiving_now();
    return receiving ? receiving->progress() : WorkProgress{};
  }
  void cancel() override {
    if (const auto receiving = receiving_now()) return receiving->cancel();
    if (outcome_.is_set()) return;
    const Rank other(group_->rank().value() == 0 ? 1 : 0);
    end_all(group_->next_of(unicast_from(other)),
            cancelled(fmt::format("rank {} cancelled a receive from any source", group_->rank().value())));
  }
  void end(const Status& cause) override {
    if (claim()) outcome_.set(cause);
  }

 private:
  [[nodiscard]] std::uint32_t channel() const { return channel_of(tag_); }
  [[nodiscard]] GroupCollective unicast_from(Rank source) const {
    return unicast(source, group_->rank(), channel());
  }

  // Either a message is received or the receive is ended, so that nothing is written to `data_` afterwards.
  bool claim() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(is_claimed_, true);
  }

  [[nodiscard]] std::shared_ptr<PostedWork> receiving_now() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }

  void listen_to(Rank source) {
    const GroupCalls::Next next = group_->next_of(unicast_from(source));
    group_->arrivals().listen(group_->host(), {next.collective, next.operation, source},
                              group_->arrivals().first_deadline(channel()), shared_from_this());
  }

  bool receive_from(Rank source, const GroupCalls::Next& next) {
    if (!claim()) return true;
    const Duration left = std::max(Duration(0), deadline_ - group_->host().clock().now());
    const auto work = group_->post_next(unicast_destination(group_->rank(), source, data_, channel()),
                                        next.operation, left);
    if (!work) {
      const std::lock_guard lock(mutex_);
      is_claimed_ = false;
      return false;
    }
    {
      const std::lock_guard lock(mutex_);
      received_ = work;
      source_ = source;
    }
    group_->arrivals().go_on(channel());
    // Without the lock: on a node that stops it is over already, and who is told may ask for the source.
    work->on_done([self = shared_from_this(), work] { self->outcome_.set(work->wait()); });
    return true;
  }

  // A failure is the group's: none of those that wait goes on. `where`: the others have yet to hear of it.
  void end_all(const std::optional<GroupCalls::Next>& where, const Status& cause) {
    const auto waiting = group_->arrivals().take(channel());
    if (where) group_->fail(*where, cause);
    end(cause);
    for (const auto& one : waiting) {
      if (one->is_waiting()) one->end(cause);
    }
  }

  const std::shared_ptr<GroupCalls> group_;
  const std::span<std::byte> data_;
  const std::uint32_t tag_;
  const Duration timeout_;
  const TimePoint deadline_;
  mutable std::mutex mutex_;
  bool is_claimed_ = false;
  std::shared_ptr<PostedWork> received_;
  std::optional<Rank> source_;
  Outcome outcome_;
};

}  // namespace

Result<std::shared_ptr<Work>> receive_any(std::shared_ptr<GroupCalls> group, std::span<std::byte> data,
                                          std::uint32_t tag, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(group->check_usable());
  SQUARE_RETURN_IF_ERROR(check_tag(tag));
  if (group->size() < 2) return invalid_argument("a group of one has no other member to receive from");
  std::vector<GroupCollective> all;
  for (const Rank source : group->ranks()) {
    if (source != group->rank()) all.push_back(unicast(source, group->rank(), channel_of(tag)));
  }
  SQUARE_RETURN_IF_ERROR(group->ensure(all, timeout));
  const auto receive = std::make_shared<AnySource>(group, data, tag, timeout);
  SQUARE_RETURN_IF_ERROR(group->arrivals().enter(channel_of(tag), receive, CallLimits{}.waiting));
  return std::shared_ptr<Work>(receive);
}

}  // namespace square
