// What gRPC has to say.
#pragma once

namespace square::trust {

// Into Square's log from now on: by itself gRPC writes to stderr, and any peer can make it. Any thread; once
// is enough for the process.
void hear_grpc();

}  // namespace square::trust
