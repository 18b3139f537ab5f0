#include "ps/cluster/control_lines.h"

#include <utility>

namespace square::test {

void ControlLines::set_master(ps::MasterState* master, Executor* executor) {
  ++master_life_;
  master_ = master;
  master_executor_ = executor;
  network_.set_process(kMaster, executor);
  if (master != nullptr) return;
  for (auto& [host, member] : members_) break_line(host, member);
}

void ControlLines::set_member(const std::string& host, LineOwner* owner, Executor* executor) {
  Member& member = members_[host];
  if (owner == nullptr) {
    member.owner = nullptr;
    break_line(host, member);
  }
  member.owner = owner;
  member.executor = executor;
  network_.set_process(host, executor);
}

void ControlLines::set_blocked(const std::string& host, bool is_blocked) {
  Member& member = members_[host];
  if (is_blocked && !member.is_blocked) member.blocked_since = simulation_.clock().now();
  member.is_blocked = is_blocked;
  network_.set_blocked(host, kMaster, is_blocked);
  network_.set_blocked(kMaster, host, is_blocked);
}

void ControlLines::tend() {
  for (auto& [host, member] : members_) {
    if (member.owner == nullptr) continue;
    if (member.line == 0 && master_ != nullptr && !member.is_blocked) open(host, member);
    const bool is_cut = member.is_blocked && simulation_.clock().now() - member.blocked_since > kCutTime;
    if (member.line != 0 && is_cut) break_line(host, member);
  }
}

void ControlLines::open(const std::string& host, Member& member) {
  member.line = network_.open();
  hosts_[member.line] = host;
  member.executor->post([this, host, line = member.line] {
    const Member& now = members_[host];
    if (now.line == line && now.owner != nullptr) now.owner->on_attached();
  });
}

void ControlLines::break_line(std::string host, Member& member) {
  const ps::PeerId line = std::exchange(member.line, 0);
  if (line == 0) return;
  network_.forget(line);
  hosts_.erase(line);
  if (member.owner != nullptr && member.executor != nullptr) {
    member.executor->post([this, host, owner = member.owner] {
      if (members_[host].owner == owner) owner->on_detached();
    });
  }
  if (master_ != nullptr) {
    master_executor_->post([this, line, life = master_life_] {
      if (life == master_life_) master_->on_line_lost(line, simulation_.clock().now());
    });
  }
}

void ControlLines::report(const std::string& host, v1::PsReport report) {
  const ps::PeerId line = members_[host].line;
  if (line == 0) return;
  network_.carry(line, host, kMaster, [this, line, life = master_life_, report = std::move(report)] {
    if (life == master_life_ && master_ != nullptr)
      master_->on_report(line, report, simulation_.clock().now());
  });
}

void ControlLines::order(ps::PeerId peer, v1::PsOrder order) {
  const auto found = hosts_.find(peer);
  if (found == hosts_.end()) return;
  network_.carry(peer, kMaster, found->second, [this, host = found->second, peer, order = std::move(order)] {
    const Member& member = members_[host];
    if (member.line == peer && member.owner != nullptr) member.owner->on_order(order);
  });
}

void ControlLines::close(ps::PeerId peer) {
  const auto found = hosts_.find(peer);
  if (found != hosts_.end()) break_line(found->second, members_[found->second]);
}

}  // namespace square::test
