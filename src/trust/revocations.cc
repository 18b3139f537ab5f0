#include "trust/revocations.h"

#include <fmt/format.h>

#include <charconv>

#include "base/check.h"
#include "base/net/percent.h"

namespace square::trust {
namespace {

Result<Revocation> parse_line(std::string_view line) {
  const std::size_t slash = line.find('/');
  const std::size_t space = line.find(' ');
  if (slash == std::string_view::npos || space == std::string_view::npos || space < slash) {
    return invalid_argument("it is not ROLE/NAME SECONDS");
  }
  Revocation revocation;
  SQUARE_ASSIGN_OR_RETURN(revocation.role, parse_role(line.substr(0, slash)));
  const std::string_view name = line.substr(slash + 1, space - slash - 1);
  SQUARE_ASSIGN_OR_RETURN(revocation.name, net::percent_decode(name));
  if (to_path_segment(revocation.name) != name)
    return invalid_argument(fmt::format("its name has to be spelled {}", to_path_segment(revocation.name)));
  const std::string_view digits = line.substr(space + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), revocation.before);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return invalid_argument("its time is no number of seconds");
  }
  SQUARE_RETURN_IF_ERROR(check_identity_name({"any", revocation.role, revocation.name}));
  return revocation;
}

}  // namespace

std::string to_text(const std::vector<Revocation>& revoked) {
  std::string text;
  for (const Revocation& one : revoked) {
    text += fmt::format("{}/{} {}\n", to_string(one.role), to_path_segment(one.name), one.before);
  }
  return text;
}

Result<std::vector<Revocation>> parse_revocations(std::string_view text) {
  std::vector<Revocation> revoked;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    auto parsed = parse_line(line);
    if (!parsed.is_ok()) return parsed.status().with_context(fmt::format("line {}", number));
    if (revoked.size() >= kMaxRevocations) {
      return invalid_argument(fmt::format("it has more than {} names", kMaxRevocations));
    }
    revoked.push_back(*std::move(parsed));
  }
  return revoked;
}

}  // namespace square::trust
