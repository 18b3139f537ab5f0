#include "collective/any_source.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "collective/point_to_point.h"
#include "square/clock.h"

namespace square {
namespace {

class AnySource final : public Work, public std::enable_shared_from_this<AnySource> {
 public:
  AnySource(std::shared_ptr<GroupCalls> group, std::span<std::byte> data, std::uint32_t tag, Duration timeout)
      : group_(std::move(group)),
        data_(data),
        tag_(tag),
        timeout_(timeout),
        begun_at_(steady_clock().now()) {}

  void begin() {
    for (const Rank source : group_->ranks()) {
      if (source != group_->rank()) listen_to(source);
    }
  }

  Status wait() override { return outcome_.wait(); }
  bool wait_for(Duration timeout) override { return outcome_.wait_for(timeout); }
  [[nodiscard]] bool is_done() const override { return outcome_.is_set(); }
  void on_done(std::function<void()> notify) override { outcome_.on_set(std::move(notify)); }
  [[nodiscard]] std::optional<Rank> source() const override {
    const std::lock_guard lock(mutex_);
    return received_ ? source_ : std::nullopt;
  }
  void cancel() override {
    if (const auto receiving = receiving_now()) return receiving->cancel();
    const Rank other(group_->rank().value() == 0 ? 1 : 0);
    fail(group_->next_of(unicast_from(other)),
         cancelled(fmt::format("rank {} cancelled a receive from any source", group_->rank().value())));
  }

 private:
  [[nodiscard]] GroupCollective unicast_from(Rank source) const {
    return unicast(source, group_->rank(), channel_of(tag_));
  }

  [[nodiscard]] std::shared_ptr<PostedWork> receiving_now() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }

  void listen_to(Rank source) {
    const GroupCalls::Next next = group_->next_of(unicast_from(source));
    const Duration left = std::max(Duration(0), timeout_ - (steady_clock().now() - begun_at_));
    group_->host().watch(next.collective, next.operation, left,
                         [self = shared_from_this(), source, next](const Status& outcome) {
                           self->on_arrival(source, next, outcome);
                         });
  }

  void on_arrival(Rank source, const GroupCalls::Next& next, const Status& outcome) {
    if (outcome_.is_set() || receiving_now()) return;
    if (outcome.code() == StatusCode::kDeadlineExceeded) {
      return fail(next,
                  deadline_exceeded(fmt::format("rank {}: no message with tag {} from any rank in {:.1f} s",
                                                group_->rank().value(), tag_, to_seconds(timeout_))));
    }
    if (!outcome.is_ok()) return outcome_.set(outcome);
    if (!receive_from(source, next)) listen_to(source);  // another receive has taken that message
  }

  bool receive_from(Rank source, const GroupCalls::Next& next) {
    const std::unique_lock lock(mutex_);
    if (received_) return true;
    auto work = group_->post_next(unicast_destination(group_->rank(), source, data_, channel_of(tag_)),
                                  next.operation, timeout_);
    if (!work) return false;
    received_ = work;
    source_ = source;
    work->on_done([self = shared_from_this(), work] { self->outcome_.set(work->wait()); });
    return true;
  }

  void fail(const GroupCalls::Next& where, const Status& cause) {
    if (outcome_.is_set()) return;
    outcome_.set(cause);
    group_->fail(where, cause);
  }

  const std::shared_ptr<GroupCalls> group_;
  const std::span<std::byte> data_;
  const std::uint32_t tag_;
  const Duration timeout_;
  const TimePoint begun_at_;
  mutable std::mutex mutex_;
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
  const auto receive = std::make_shared<AnySource>(std::move(group), data, tag, timeout);
  receive->begin();
  return std::shared_ptr<Work>(receive);
}

}  // namespace square
