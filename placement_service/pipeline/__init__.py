"""From a question to an answer: the stages, their time, and what happens when one fails.

    request -> formulate -> first answer -> verify -> search -> verify -> explain -> placement
                                              ^  in another process

Every plan is verified before it counts, by code that shares nothing with the
engine, and its tiers are recomputed from its bindings. A plan that breaks a rule is a defect of the
service: it is reported, never sent, and the last plan that kept the rules is the answer; at worst
the empty one. A bound that contradicts what was reached is dropped. So nothing that the engine
does, even a crash, makes the answer wrong or late; it can only be less good.

What the stages do is in their modules. Nothing here knows messages or gRPC.
"""
