// Names, lists of revocations, certificates and grants that others wrote: whatever the bytes, a value or an
// error. libFuzzer; `make fuzz` runs it over tests/fuzz/corpus/trust.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "square/grant.h"
#include "square/identity.h"
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  parse_name(text);
  parse_list(text);
  (void)read_certificate(text);
  parse_grant(text);
  return 0;
}
