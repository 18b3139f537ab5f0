// Keys of groups: who comes to them, and who does not.
#include "trust/group_keys.h"

#include <doctest/doctest.h>

#include <map>

#include "issued.h"

using namespace square;
using namespace square::testing;
using namespace square::trust;

namespace {

class Keys {
 public:
  Keys(const Issuer& issuer, const std::vector<std::string>& names) : names_(names) {
    for (const std::string& name : names) keys_[name] = GroupKeys::create(issuer.node(name)).value();
  }
  GroupKeys& operator[](const std::string& name) { return *keys_.at(name); }
  [[nodiscard]] KeyHolders holders() const { return {"job", "acme", names_}; }
  std::vector<std::string> shares() {
    std::vector<std::string> shares;
    for (const std::string& name : names_) shares.push_back(keys_.at(name)->share().value());
    return shares;
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::shared_ptr<GroupKeys>> keys_;
};

}  // namespace

TEST_CASE("every holder unwraps the same key, drawn anew for each group") {
  const Issuer issuer;
  Keys keys(issuer, {"a", "b", "c"});
  const std::string wrapped = keys["b"].wrap(keys.holders(), keys.shares()).value();
  CHECK(wrapped.size() <= max_wrapped_bytes(3));
  const auto of_a = keys["a"].unwrap(keys.holders(), "job#1", wrapped).value();
  for (const std::string name : {"a", "b", "c"})
    CHECK(keys[name].unwrap(keys.holders(), "job#1", wrapped).value()->bytes() == of_a->bytes());
  const std::string next = keys["b"].wrap(keys.holders(), keys.shares()).value();
  CHECK(keys["a"].unwrap(keys.holders(), "job#2", next).value()->bytes() != of_a->bytes());
  SUBCASE("and takes none for two groups") {
    CHECK(keys["c"].unwrap(keys.holders(), "job#2", wrapped).status().code() ==
          StatusCode::kFailedPrecondition);
  }
}

TEST_CASE("who is no holder has nothing of it, whatever is said of the others") {
  const Issuer issuer;
  Keys keys(issuer, {"a", "b", "c", "d"});
  const KeyHolders three{"job", "acme", {"a", "b", "c"}};
  const std::vector<std::string> all = keys.shares();
  const std::string wrapped = keys["a"].wrap(three, {all[0], all[1], all[2]}).value();
  CHECK(keys["d"].unwrap(three, "job#1", wrapped).status().code() == StatusCode::kPermissionDenied);
  const KeyHolders with_d{"job", "acme", {"a", "b", "d"}};
  CHECK(keys["d"].unwrap(with_d, "job#1", wrapped).status().code() == StatusCode::kFailedPrecondition);
  CHECK(keys["b"].unwrap(with_d, "job#1", wrapped).status().code() == StatusCode::kFailedPrecondition);
  const KeyHolders other_tenant{"job", "evil", {"a", "b", "c"}};
  CHECK(keys["b"].unwrap(other_tenant, "job#1", wrapped).status().code() == StatusCode::kFailedPrecondition);
  CHECK(keys["b"].unwrap(three, "job#1", wrapped).is_ok());
}

TEST_CASE("a controller that gives its own key, or another node's, for a member's is found out") {
  const Issuer issuer;
  const Issuer stranger;
  Keys keys(issuer, {"a", "b"});
  const auto evil = GroupKeys::create(stranger.node("b")).value();
  const std::string own = keys["a"].share().value();
  const auto wrong = keys["a"].wrap(keys.holders(), {own, evil->share().value()});
  CHECK(wrong.status().code() == StatusCode::kUnauthenticated);
  CHECK(wrong.status().message().find("\"b\"") != std::string::npos);
  CHECK(keys["a"].wrap(keys.holders(), {own, own}).status().code() == StatusCode::kPermissionDenied);
  const std::string good = keys["b"].share().value();
  for (std::size_t at = 0; at < 100; ++at) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK_FALSE(keys["a"].wrap(keys.holders(), {own, changed}).is_ok());
  }
  for (const std::size_t size : {0, 10, 33, 34, 100})
    CHECK_FALSE(keys["a"].wrap(keys.holders(), {own, good.substr(0, size)}).is_ok());
  const auto by_stranger = evil->wrap(keys.holders(), {evil->share().value(), evil->share().value()});
  CHECK_FALSE(by_stranger.is_ok());
}

TEST_CASE("what is wrapped does not open changed or cut, nor in a process that came later") {
  const Issuer issuer;
  Keys keys(issuer, {"a", "b"});
  const std::string wrapped = keys["a"].wrap(keys.holders(), keys.shares()).value();
  for (std::size_t at = wrapped.size() - 80; at < wrapped.size() - 48; ++at) {
    std::string changed = wrapped;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK_FALSE(keys["a"].unwrap(keys.holders(), "job#1", changed).is_ok());
  }
  for (std::size_t size = 0; size < wrapped.size(); size += 7)
    CHECK_FALSE(keys["b"].unwrap(keys.holders(), "job#1", wrapped.substr(0, size)).is_ok());
  CHECK(keys["b"].unwrap(keys.holders(), "job#1", wrapped + "x").status().code() ==
        StatusCode::kInvalidArgument);
  const auto later = GroupKeys::create(issuer.node("b")).value();
  CHECK(later->unwrap(keys.holders(), "job#1", wrapped).status().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("a renewed certificate signs the same key again, a revoked one is believed no more") {
  const Issuer issuer;
  Keys keys(issuer, {"a", "b"});
  const std::string before = keys["b"].share().value();
  CHECK(keys["b"].share().value() == before);
  issuer.issue(Role::kNode, "b");
  const std::string after = keys["b"].share().value();
  CHECK(after != before);
  CHECK(after.substr(0, 32) == before.substr(0, 32));
  const std::string own = keys["a"].share().value();
  const std::string wrapped = keys["a"].wrap(keys.holders(), {own, after}).value();
  CHECK(keys["b"].unwrap(keys.holders(), "job#1", wrapped).is_ok());
  const auto self = Identity::open(issuer.folder("a")).value();
  self->set_revoked({{Role::kNode, "b", std::numeric_limits<std::int64_t>::max()}});
  const auto strict = GroupKeys::create(self).value();
  CHECK(strict->wrap(keys.holders(), {own, after}).status().code() == StatusCode::kUnauthenticated);
}

TEST_CASE("a key that a process has stays, though who has made it is believed no more") {
  const Issuer issuer;
  const auto self = issuer.node("a");
  const auto own = GroupKeys::create(self).value();
  const auto maker = GroupKeys::create(issuer.node("b")).value();
  const KeyHolders holders{"job", "acme", {"a", "b"}};
  const std::string wrapped = maker->wrap(holders, {own->share().value(), maker->share().value()}).value();
  const auto key = own->unwrap(holders, "job#1", wrapped).value();
  self->set_revoked({{Role::kNode, "b", std::numeric_limits<std::int64_t>::max()}});
  CHECK(own->unwrap(holders, "job#1", wrapped).value() == key);
  CHECK(own->unwrap(holders, "job#2", wrapped).status().code() == StatusCode::kUnauthenticated);
}

TEST_CASE("identities by fingerprints seal nothing") {
  CHECK(GroupKeys::create(Identity::make_own().value()).status().code() == StatusCode::kInvalidArgument);
  CHECK(GroupKeys::create(nullptr).status().code() == StatusCode::kInvalidArgument);
}
