#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/net/percent.h"
#include "square/identity.h"

namespace square {
namespace {

constexpr std::string_view kScheme = "spiffe://";
// Enough of a stranger's text for a message.
constexpr std::size_t kMaxQuotedBytes = 100;

constexpr std::array<std::pair<Role, std::string_view>, 4> kRoles{{{Role::kNode, "node"},
                                                                   {Role::kTenant, "tenant"},
                                                                   {Role::kController, "controller"},
                                                                   {Role::kServer, "server"}}};

bool is_one_of(char c, std::string_view others) { return others.find(c) != std::string_view::npos; }

bool is_in_domain(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || is_one_of(c, ".-_"); }

// As SPIFFE has it.
bool is_in_name(char c) { return is_in_domain(c) || (c >= 'A' && c <= 'Z'); }

bool is_control(char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }

}  // namespace

std::string_view to_string(Role role) {
  for (const auto& [known, word] : kRoles) {
    if (known == role) return word;
  }
  return "node";
}

Result<Role> parse_role(std::string_view word) {
  for (const auto& [role, known] : kRoles) {
    if (known == word) return role;
  }
  return invalid_argument(fmt::format(R"("{}" is no role: name node, tenant, controller or server)",
                                      word.substr(0, kMaxQuotedBytes)));
}

Status check_identity_name(const IdentityName& name) {
  if (name.domain.empty() || name.domain.size() > kMaxIdentityDomainBytes ||
      !std::ranges::all_of(name.domain, is_in_domain)) {
    return invalid_argument(
        fmt::format("\"{}\" cannot be a domain: 1 to {} lower-case letters, digits, '.', '-' and '_'",
                    name.domain.substr(0, kMaxQuotedBytes), kMaxIdentityDomainBytes));
  }
  if (name.name.empty() || name.name.size() > kMaxIdentityNameBytes ||
      std::ranges::any_of(name.name, is_control)) {
    return invalid_argument(
        fmt::format("\"{}\" cannot be a certificate's name: 1 to {} bytes, no control characters",
                    name.name.substr(0, kMaxQuotedBytes), kMaxIdentityNameBytes));
  }
  return {};
}

std::string to_path_segment(std::string_view name) {
  // Nor are these two a place of their own.
  if (name == "." || name == "..") return net::percent_encode(name, [](char /*c*/) { return false; });
  return net::percent_encode(name, is_in_name);
}

std::string to_string(const IdentityName& name) {
  return fmt::format("{}{}/{}/{}", kScheme, name.domain, to_string(name.role), to_path_segment(name.name));
}

Result<IdentityName> parse_identity_name(std::string_view uri) {
  const std::string_view path = uri.substr(std::min(uri.size(), kScheme.size()));
  const std::size_t role_at = path.find('/');
  const std::size_t name_at = role_at == std::string_view::npos ? role_at : path.find('/', role_at + 1);
  if (!uri.starts_with(kScheme) || name_at == std::string_view::npos) {
    return invalid_argument(
        fmt::format("\"{}\" is not spiffe://DOMAIN/ROLE/NAME", uri.substr(0, kMaxQuotedBytes)));
  }
  IdentityName name;
  name.domain = path.substr(0, role_at);
  SQUARE_ASSIGN_OR_RETURN(name.name, net::percent_decode(path.substr(name_at + 1)));
  SQUARE_ASSIGN_OR_RETURN(name.role, parse_role(path.substr(role_at + 1, name_at - role_at - 1)));
  SQUARE_RETURN_IF_ERROR(check_identity_name(name));
  // No two texts are the same name.
  if (to_string(name) != uri) {
    return invalid_argument(
        fmt::format("\"{}\" has to be spelled {}", uri.substr(0, kMaxQuotedBytes), to_string(name)));
  }
  return name;
}

}  // namespace square
