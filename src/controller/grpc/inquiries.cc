#include "controller/grpc/inquiries.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "controller/protocol.h"

namespace square::controller {
namespace {

std::shared_ptr<const v1::ControllerEvent> question_for(const Attendant& node,
                                                        const std::map<std::string, std::string>& addresses,
                                                        std::uint64_t number, Duration time) {
  auto event = std::make_shared<v1::ControllerEvent>();
  v1::Inquiry& inquiry = *event->mutable_examine();
  inquiry.set_number(number);
  inquiry.set_time_nanoseconds(static_cast<std::uint64_t>(time.count()));
  for (const std::string& peer : node.peers) {
    v1::Address& added = *inquiry.add_peers();
    added.set_peer(peer);
    added.set_address(addresses.at(peer));
  }
  return event;
}

// The way there and the way back are taken to be equally long, as NTP does: half of what is not the node's
// own time is the doubt.
void compare_clocks(v1::ExamineResponse::Node& node, const v1::Examined& examined, std::int64_t asked,
                    std::int64_t heard) {
  const std::int64_t there = examined.received_nanoseconds() - asked;
  const std::int64_t back = examined.answered_nanoseconds() - heard;
  node.set_clock_ahead_nanoseconds(there / 2 + back / 2);
  node.set_clock_doubt_nanoseconds(std::max<std::int64_t>(0, there / 2 - back / 2));
}

}  // namespace

void Inquiries::begin(const std::vector<Attendant>& nodes, Duration time, Reply reply) {
  time = std::clamp(time, kMinInquiryTime, kMaxInquiryTime);
  const auto made = std::make_shared<Inquiry>();
  made->response.set_version(SQUARE_VERSION);
  made->response.set_protocol_version(control_versions().newest);
  std::map<std::string, std::string> addresses;
  for (const Attendant& node : nodes) {
    addresses.emplace(node.name, node.address);
    v1::ExamineResponse::Node& added = *made->response.add_nodes();
    added.set_name(node.name);
    added.set_address(node.address);
    added.set_connected(node.line != nullptr);
    for (const std::string& peer : node.peers) added.add_peers(peer);
    if (node.line) ++made->missing;
  }
  std::unique_lock lock(mutex_);
  if (is_stopped_ || open_.size() >= kMaxInquiries || made->missing == 0) {
    const bool is_stopped = is_stopped_;
    lock.unlock();
    if (is_stopped) return reply(unavailable("the controller stopped"));
    if (made->missing == 0) return reply(made->response);
    return reply(resource_exhausted(
        fmt::format("{} others examine the overlay at the same time; try again", kMaxInquiries)));
  }
  const std::uint64_t number = ++last_;
  made->reply = std::move(reply);
  made->asked_nanoseconds = wall_nanoseconds();
  open_.emplace(number, made);
  // gRPC knows deadlines by the system's clock, and takes the difference at once.
  made->alarm.Set(std::chrono::system_clock::now() + time, [weak = weak_from_this(), number](bool /*ok*/) {
    if (const auto self = weak.lock()) self->end(number);
  });
  lock.unlock();
  for (const Attendant& node : nodes) {
    if (node.line) node.line->send(question_for(node, addresses, number, time));
  }
}

void Inquiries::answer(const std::string& node, const v1::Examined& examined) {
  const std::int64_t heard = wall_nanoseconds();
  std::unique_lock lock(mutex_);
  const auto found = open_.find(examined.inquiry());
  if (found == open_.end() || examined.report_json().size() > kMaxReportBytes) return;
  Inquiry& inquiry = *found->second;
  auto& nodes = *inquiry.response.mutable_nodes();
  const auto known = std::ranges::find_if(nodes, [&](const auto& one) { return one.name() == node; });
  if (known == nodes.end() || !known->connected() || known->answered()) return;
  known->set_answered(true);
  known->set_report_json(examined.report_json());
  compare_clocks(*known, examined, inquiry.asked_nanoseconds, heard);
  if (--inquiry.missing > 0) return;
  lock.unlock();
  end(examined.inquiry());
}

void Inquiries::end(std::uint64_t number) {
  std::shared_ptr<Inquiry> over;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(number);
    if (found == open_.end()) return;
    over = std::move(found->second);
    open_.erase(found);
  }
  over->alarm.Cancel();
  over->reply(std::move(over->response));
}

void Inquiries::stop() {
  std::map<std::uint64_t, std::shared_ptr<Inquiry>> ended;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    ended.swap(open_);
  }
  for (const auto& [number, inquiry] : ended) {
    inquiry->alarm.Cancel();
    inquiry->reply(unavailable("the controller stopped"));
  }
}

}  // namespace square::controller
