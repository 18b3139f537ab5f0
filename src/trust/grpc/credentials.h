// Identities as gRPC's credentials.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "square/identity.h"

namespace square::trust {

// Who a dialled peer must be.
struct Expected {
  std::vector<Role> roles;
  std::string name;  // empty: any
};

// Mutual TLS as `identity`, or nothing of it where that is null.
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const std::shared_ptr<Identity>& identity,
                                                              Expected expected);
// Whom a server lets in.
struct Callers {
  std::vector<Role> roles;          // empty: all
  std::size_t most_handshakes = 0;  // of one certificate at once, then half of them each second; 0: no limit
};
// The same of a server. check_caller() says whether one that was let in may do what it asks for.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const std::shared_ptr<Identity>& identity,
                                                            Callers callers);

// Whether the caller whose connection this is may be `name` in one of these roles: Identity::check(). Anybody
// may where `identity` is null.
Status check_caller(const std::shared_ptr<Identity>& identity, const grpc::AuthContext& connection,
                    const std::vector<Role>& roles, std::string_view name);

// What it has shown; nothing where the connection is not TLS.
std::optional<PeerCertificate> certificate_of(const grpc::AuthContext& connection);

}  // namespace square::trust
