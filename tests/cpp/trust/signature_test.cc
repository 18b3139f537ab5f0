// Who has signed a text, and who has not.
#include "trust/signature.h"

#include <doctest/doctest.h>

#include "issued.h"

using namespace square;
using namespace square::testing;
using namespace square::trust;

namespace {

std::string signed_by(const std::shared_ptr<Identity>& identity, std::string_view text) {
  return sign_as(text, read_signer(*identity).value()).value();
}

}  // namespace

TEST_CASE("a signature says who has made it, and holds for its text alone") {
  const Issuer issuer;
  const auto signer = issuer.identity(Role::kController, "ctl");
  const auto reader = issuer.node("a");
  const std::string authority = authorities_of(*reader).value();
  const std::string signature = signed_by(signer, "text");
  const auto by = check_signed("text", signature, *reader, {Role::kController}, authority);
  REQUIRE(by.is_ok());
  CHECK(*by == IdentityName{"square.test", Role::kController, "ctl"});
  CHECK(check_signed("texts", signature, *reader, {Role::kController}, authority).status().code() ==
        StatusCode::kUnauthenticated);
  CHECK(check_signed("text", signature, *reader, {Role::kNode}, authority).status().code() ==
        StatusCode::kPermissionDenied);
  // Without its last line end it is the same.
  REQUIRE(signature.ends_with('\n'));
  for (std::size_t size = 0; size + 1 < signature.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(
        check_signed("text", signature.substr(0, size), *reader, {Role::kController}, authority).is_ok());
  }
  // Of the signature itself; a certificate's text may be spelled in several ways.
  for (std::size_t i = 0; i < 64; ++i) {
    std::string other = signature;
    other[i] = static_cast<char>(other[i] ^ 1);
    CAPTURE(i);
    CHECK_FALSE(check_signed("text", other, *reader, {Role::kController}, authority).is_ok());
  }
}

TEST_CASE("who is of another authority, or revoked, has signed nothing") {
  const Issuer issuer;
  const Issuer stranger;  // of the same name
  const auto reader = issuer.node("a");
  const std::string authority = authorities_of(*reader).value();
  const std::string foreign = signed_by(stranger.identity(Role::kController, "ctl"), "text");
  CHECK(check_signed("text", foreign, *reader, {Role::kController}, authority).status().code() ==
        StatusCode::kUnauthenticated);
  const std::string own = signed_by(issuer.identity(Role::kController, "ctl"), "text");
  REQUIRE(check_signed("text", own, *reader, {Role::kController}, authority).is_ok());
  reader->set_revoked({{Role::kController, "ctl", 4'000'000'000}});
  CHECK_FALSE(check_signed("text", own, *reader, {Role::kController}, authority).is_ok());
}
