// Names, lists of revocations, certificates, grants and keys of groups that others wrote: whatever the bytes,
// a value or an error. libFuzzer; `make fuzz` runs it over tests/fuzz/corpus/trust.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "square/authority.h"
#include "square/grant.h"
#include "square/identity.h"
#include "trust/group_keys.h"
#include "trust/revocations.h"

namespace {

using namespace square;

void require(bool holds) {
  if (!holds) std::abort();
}

void parse_name(std::string_view text) {
  const auto name = parse_identity_name(text);
  if (!name.is_ok()) return;
  require(to_string(*name) == text);
  require(check_identity_name(*name).is_ok());
}

void parse_list(std::string_view text) {
  const auto revoked = trust::parse_revocations(text);
  if (!revoked.is_ok()) return;
  const auto again = trust::parse_revocations(trust::to_text(*revoked));
  require(again.is_ok() && *again == *revoked);
}

// The fuzzer cannot sign, so nothing that it writes is ever taken.
void parse_grant(std::string_view text) { require(!read_grant(text, text).is_ok()); }

// The keys of node a, and what it has told and wrapped.
struct Keys {
  Keys() {
    std::string folder = "/tmp/square-fuzz-XXXXXX";
    require(mkdtemp(folder.data()) != nullptr);
    require(Authority::create(folder + "/authority", "fuzz.test").is_ok());
    require(Authority::open(folder + "/authority")->issue(Role::kNode, "a", folder + "/a").is_ok());
    own = *trust::GroupKeys::create(*Identity::open(folder + "/a"));
    share = *own->share();
    wrapped = *own->wrap(holders, {share});
    require(own->unwrap(holders, "group#1", wrapped).is_ok());
  }

  const trust::KeyHolders holders{"group", "tenant", {"a"}};
  std::shared_ptr<trust::GroupKeys> own;
  std::string share;
  std::string wrapped;
};

// The bytes as they are, and in the place of some that are right.
void parse_keys(const std::string& text) {
  static Keys keys;
  (void)keys.own->wrap(keys.holders, {text});
  require(!keys.own->unwrap(keys.holders, "group#1", text).is_ok());
  if (text.size() < 3) return;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const std::size_t at = byte(0) + 256U * byte(1);
  const auto spliced = [&](std::string good) {
    if (at < good.size()) good.replace(at, text.size() - 2, text, 2);
    return good;
  };
  (void)keys.own->wrap(keys.holders, {spliced(keys.share)});
  (void)keys.own->unwrap(keys.holders, "group#1", spliced(keys.wrapped));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  parse_name(text);
  parse_list(text);
  (void)read_certificate(text);
  parse_grant(text);
  parse_keys(text);
  return 0;
}
