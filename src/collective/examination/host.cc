#include "collective/examination/host.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "collective/examination/system_files.h"

namespace square::examination {
namespace {

constexpr double kKibibyte = 1024.0;

Json limit_or_null(rlim_t limit) { return limit == RLIM_INFINITY ? Json(nullptr) : Json(limit); }

Json bytes_or_null(const std::optional<double>& bytes) {
  return bytes ? Json(static_cast<std::uint64_t>(*bytes)) : Json(nullptr);
}

std::optional<double> kibibytes(const std::string& path, const std::string& key) {
  const auto found = read_field(path, key);
  return found ? std::optional(*found * kKibibyte) : std::nullopt;
}

Json descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  std::error_code error;
  std::size_t open = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/fd", error)) ++open;
  return {{"soft", limit_or_null(limit.rlim_cur)}, {"hard", limit_or_null(limit.rlim_max)}, {"open", open}};
}

// The least that any control group of the process leaves.
std::optional<double> left_in_groups() {
  std::optional<double> least;
  for (const std::string& group : control_groups()) {
    const auto limit = to_number(read_text(group + "/memory.max"));
    const auto used = to_number(read_text(group + "/memory.current"));
    if (!limit || !used) continue;
    const double left = std::max(0.0, *limit - *used);
    least = std::min(least.value_or(left), left);
  }
  return least;
}

Json memory() {
  const std::string system = "/proc/meminfo";
  auto available = kibibytes(system, "MemAvailable:");
  const auto left = left_in_groups();
  if (left && (!available || *left < *available)) available = left;
  return {{"total_bytes", bytes_or_null(kibibytes(system, "MemTotal:"))},
          {"available_bytes", bytes_or_null(available)},
          {"used_bytes", bytes_or_null(kibibytes("/proc/self/status", "VmRSS:"))}};
}

Json limits() { return {{"descriptors", descriptors()}, {"memory", memory()}}; }

// The last of three numbers: the largest buffer that TCP takes by itself.
Json largest_buffer(const std::string& path) {
  const auto words = read_words(path);
  return words.size() < 3 ? Json() : bytes_or_null(to_number(words[2]));
}

Json network() {
  const std::string settings = "/proc/sys/net/ipv4/";
  const auto congestion = read_words(settings + "tcp_congestion_control");
  return {{"congestion", congestion.empty() ? Json() : Json(congestion[0])},
          {"congestion_available", read_words(settings + "tcp_available_congestion_control")},
          {"receive_buffer_bytes", largest_buffer(settings + "tcp_rmem")},
          {"send_buffer_bytes", largest_buffer(settings + "tcp_wmem")}};
}

// Processes with the same network reach one another over the loopback.
Json host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  std::error_code error;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", error);
  const auto boot = read_words("/proc/sys/kernel/random/boot_id");
  return {
      {"name", name.data()}, {"boot", boot.empty() ? Json() : Json(boot[0])}, {"network", network.string()}};
}

}  // namespace

void add_host(Json& report) {
  report["host"] = host();
  report["limits"] = limits();
  report["network"] = network();
}

}  // namespace square::examination
