#include "collective/examination/connections.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <compare>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/net/socket.h"

namespace square::examination {
namespace {

constexpr double kBitsPerAcknowledgedByte = 8.0;
constexpr double kMicrosecond = 1e-6;

std::optional<tcp_info> tcp_info_of(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return info.tcpi_state == 1 ? std::optional(info) : std::nullopt;  // TCP_ESTABLISHED
}

// Enough to tell connections to one address from another.
std::string own_end(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return {reinterpret_cast<const char*>(&address), size};
}

}  // namespace

void ConnectionWatch::look() {
  ++looks_;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    // What is no connection, or has been closed meanwhile, has none of this.
    const auto info = tcp_info_of(descriptor);
    if (!info) continue;
    const auto [found, is_new] = watched_.try_emplace({own_end(descriptor), net::peer_of(descriptor)});
    Watched& one = found->second;
    if (std::exchange(one.last_look, looks_) == looks_) continue;  // under another descriptor, too
    if (is_new) {
      one.acknowledged_first = info->tcpi_bytes_acked;
      one.held_first_us = info->tcpi_rwnd_limited;
      one.least_waiting = info->tcpi_notsent_bytes;
    }
    one.acknowledged_last = info->tcpi_bytes_acked;
    one.held_last_us = info->tcpi_rwnd_limited;
    one.least_waiting = std::min<std::size_t>(one.least_waiting, info->tcpi_notsent_bytes);
    ++one.looks;
  }
}

Json ConnectionWatch::end() {
  look();
  const double seconds = to_seconds(std::chrono::steady_clock::now() - begin_);
  Json all = Json::array();
  for (const auto& [ends, one] : watched_) {
    if (one.looks < looks_) continue;
    Json connection;
    connection["at"] = ends.other;
    connection["rate_bps"] = kBitsPerAcknowledgedByte *
                             static_cast<double>(one.acknowledged_last - one.acknowledged_first) / seconds;
    connection["waiting_bytes"] = one.least_waiting;
    connection["held_seconds"] = kMicrosecond * static_cast<double>(one.held_last_us - one.held_first_us);
    all.push_back(std::move(connection));
  }
  return all;
}

}  // namespace square::examination
