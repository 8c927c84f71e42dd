# create.c: what is reclaimed is remembered after its place was taken, not before.
s|^        if (offer.moment.ns > 0)$|        if (false) /* seeded */|
s|^        if (swap(offer.place.head, offer.place.value, claim)) {$|& /* seeded */\
            if (offer.moment.ns > 0)\
                ration_section_raise_origin(section, offer.set, offer.moment);|
