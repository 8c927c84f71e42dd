# grace.c: who has replaced something does not wait for those who are inside.
/^bool ration_grace_wait(/,/^{$/ s|^{$|{ /* seeded */\
    if (grace != NULL)\
        return true;\
|
