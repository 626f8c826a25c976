// What the generated payloads.cc calls: one imported function a beat size ends here.
#pragma once

#include "svdpi.h"

// Writes the payload of the beat that the source `id` shows next.
void source_payload(int id, svBitVecVal* payload);

// Looks at the payload that the sink `id` sees in a cycle with valid.
void sink_payload(int id, const svBitVecVal* payload);
