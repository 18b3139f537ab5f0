// What a node has measured of its links, for who is not on its strand.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "square/link_report.h"
#include "square/units.h"

namespace square {

// Reports that say nothing new are made again, so many at a time: who is told may have forgotten.
inline constexpr std::size_t kRepeatedReports = 8;
// What differs by less is nothing new.
inline constexpr double kReportedChange = 0.02;

// Thread-safe.
class MeasuredLinks {
 public:
  void note_round_trip(const std::string& peer, Duration round_trip) {
    const std::lock_guard lock(mutex_);
    Link& link = link_to(peer);
    const Duration change = round_trip < link.report.round_trip ? link.report.round_trip - round_trip
                                                                : round_trip - link.report.round_trip;
    link.report.round_trip = round_trip;
    link.is_news = link.is_news || to_seconds(change) > kReportedChange * to_seconds(round_trip);
  }
  void note_capacity(const std::string& peer, double capacity_bps, bool is_probed, TimePoint now) {
    const std::lock_guard lock(mutex_);
    Link& link = link_to(peer);
    link.report.capacity_bps = capacity_bps;
    link.report.is_probed = is_probed;
    link.report.when = now;
    const bool is_same = capacity_bps == link.told_bps ||
                         std::abs(capacity_bps - link.told_bps) <= kReportedChange * capacity_bps;
    link.is_news = link.is_news || !is_same;
  }
  // What is new since the last call, and some of what is not, in turn.
  std::vector<LinkReport> take() {
    const std::lock_guard lock(mutex_);
    std::vector<LinkReport> reports;
    for (auto& [peer, link] : links_) {
      if (std::exchange(link.is_news, false)) reports.push_back(tell(link));
    }
    auto next = links_.upper_bound(last_repeated_);
    for (std::size_t i = 0; i < std::min(kRepeatedReports, links_.size()); ++i) {
      if (next == links_.end()) next = links_.begin();
      last_repeated_ = next->first;
      reports.push_back(tell(next->second));
      ++next;
    }
    return reports;
  }

 private:
  struct Link {
    LinkReport report;
    double told_bps = 0;
    bool is_news = true;
  };

  Link& link_to(const std::string& peer) {
    Link& link = links_[peer];
    link.report.peer = peer;
    return link;
  }
  static const LinkReport& tell(Link& link) {
    link.told_bps = link.report.capacity_bps;
    return link.report;
  }

  std::mutex mutex_;
  std::map<std::string, Link> links_;
  std::string last_repeated_;
};

}  // namespace square
