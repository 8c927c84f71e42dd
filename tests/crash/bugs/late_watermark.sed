# claim.c: the reclaiming thread raises the watermark after it has taken the slot, not before.
s|^        if (candidate.expires_at.ns > 0) {$|        if (false) { /* seeded */|
s|^        if (swap_head(candidate.slot.head, candidate.slot.value, claim)) {$|& /* seeded */\
            if (candidate.expires_at.ns > 0)\
                ration_section_raise_reclaim_watermark(section, candidate.set, candidate.expires_at);|
