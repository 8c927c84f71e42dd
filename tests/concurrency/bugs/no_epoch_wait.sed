# epoch.c: who has replaced something does not wait for those who are inside.
/^bool ration_epoch_wait(/,/^{$/ s|^{$|{ /* seeded */\
    if (epoch != NULL)\
        return true;\
|
